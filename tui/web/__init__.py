"""`yak ui --web`: the same app in a browser, one child process for each tab.

    options     what was asked for on the line, and what is refused
    binding     the listening socket, and which port it got
    launch      the server around `yak ui`, and a demo cluster for all tabs
    server      the routes, and the life of the server
    guard       who may ask: Host, token, Origin
    sessions    the open tabs, and how many there may be
    session     one tab: its process, what goes to and fro, its end
    downloads   files from an app to the browser
    uploads     files from the browser to the apps
    pages       HTML, and the headers of every answer
    driver      the child's side: a Textual driver that talks to `session`

textual-serve gives the protocol between server and child, and xterm.js with its fonts; pages and everything that
decides who may do what are ours. Nothing is fetched from elsewhere: the pages' Content-Security-Policy forbids it.
"""
