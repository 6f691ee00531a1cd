"""`yak ui --web`: the same app in a browser, one child process for each tab.

    options     the command's options, their checks, and the listening socket
    launch      the server for `yak ui`, and a demo cluster for all tabs
    server      routes and life cycle, access checks (Host, token, Origin), pages, uploads, and the headers of every answer
    session     the open tabs: their processes, messages, downloads, and their end
    driver      the child's side: a Textual driver that talks to `session`

textual-serve provides the protocol between server and child, and xterm.js with its fonts; pages and access checks are
ours. Pages load nothing from other servers: their Content-Security-Policy forbids it.
"""
