"""`yak ui --web`: the same app in a browser, one child process for each tab.

    options     the command's options, and their checks
    binding     the listening socket and its port
    launch      the server for `yak ui`, and a demo cluster for all tabs
    server      routes and life cycle
    guard       access checks: Host, token, Origin
    sessions    the open tabs and their limit
    session     one tab: its process, its messages, its end
    downloads   files from an app to the browser
    uploads     files from the browser to the apps
    pages       HTML, and the headers of every answer
    driver      the child's side: a Textual driver that talks to `session`

textual-serve provides the protocol between server and child, and xterm.js with its fonts; pages and access checks are
ours. Pages load nothing from other servers: their Content-Security-Policy forbids it.
"""
