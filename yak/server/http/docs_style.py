"""The style of /docs: light and dark, for screens, phones and paper; it refers to no other file."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5b6570;--line:#d9dee3;--paper:#fff;--shade:#f4f6f8;--link:#0b62b8;
--get:#1d6f42;--post:#8a5200;--delete:#b3261e;--put:#5b3fa0}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#9aa5b0;--line:#333a41;--paper:#14171a;--shade:#1d2226;
--link:#74b3f2;--get:#67c58f;--post:#e0a94a;--delete:#f08a82;--put:#b49bf0}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
a:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.all{display:flex;max-width:78rem;margin:0 auto}
nav{flex:0 0 19rem;position:sticky;top:0;align-self:flex-start;height:100vh;overflow:auto;padding:1.5rem 1rem 2rem 1.5rem;
border-right:1px solid var(--line);font-size:.875rem}
nav h2{font-size:.75rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);margin:1.2rem 0 .3rem;border:0;
padding:0}
nav ul{list-style:none;margin:0;padding:0}nav li{margin:.15rem 0;display:flex;gap:.5rem;align-items:baseline}
nav a{overflow-wrap:break-word;min-width:0;color:inherit}
main{flex:1;min-width:0;padding:1.5rem 2rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 .5rem}
h2{font-size:1.25rem;margin:2.6rem 0 .3rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;font-weight:600;margin:0;display:flex;gap:.6rem;align-items:baseline;flex-wrap:wrap}
h4{font-size:.8rem;color:var(--soft);font-weight:600;margin:1rem 0 .25rem}
p{margin:.4rem 0;max-width:46rem}.soft{color:var(--soft)}
p code{white-space:nowrap}
code,pre{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
h3 code{font-size:.95rem;overflow-wrap:break-word;min-width:0}
pre{background:var(--shade);border:1px solid var(--line);border-radius:6px;margin:.3rem 0;padding:.55rem .75rem;
overflow-x:auto;white-space:pre}
pre.curl{user-select:all;-webkit-user-select:all;white-space:pre-wrap;overflow-wrap:break-word}
article{border:1px solid var(--line);border-radius:8px;padding:.9rem 1.1rem 1.1rem;margin:1rem 0}
article:target{border-color:var(--link)}
.m{font:600 .75rem/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:var(--put);flex:none;min-width:4em}
.get{color:var(--get)}.post{color:var(--post)}.delete{color:var(--delete)}
.who{font-size:.8rem;color:var(--soft);border:1px solid var(--line);border-radius:1em;padding:0 .6em}
.wide{overflow-x:auto}.form{margin-top:.8rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.8rem}
th,td{padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
td:first-child{white-space:nowrap}
.d1{padding-left:1.2rem}.d2{padding-left:2.4rem}.d3{padding-left:3.6rem}.d4{padding-left:4.8rem}.d5{padding-left:6rem}
.d6{padding-left:7.2rem}
.must{color:var(--delete)}
summary{cursor:pointer;margin:.3rem 0}
footer{color:var(--soft);font-size:.85rem;margin-top:3rem}
@media(max-width:56rem){.all{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line);
padding:1rem}main{padding:1rem}article{padding:.8rem}}
@media print{nav{display:none}article{break-inside:avoid}}
"""
