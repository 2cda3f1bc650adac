"""``anabranch chat``: an AG-UI client for a terminal and for a pipe.

| module | what | pure |
|---|---|---|
| ``address`` | what the command line says: where to ask, with which headers | yes |
| ``chunks`` | the abbreviated events of other servers, written out | yes |
| ``answer`` | the root agent's text, verbatim and in order, and whether it is what the server promised | yes |
| ``conversation`` | the thread's messages as a client holds them, to send with the next turn | yes |
| ``reading`` | one run: the three above, and how it ended | yes |
| ``screen`` | what is on screen: finished lines, growing lines, the plan | yes |
| ``question`` | an agent's question, and what is typed as its answer | yes |
| ``terminal`` | draws a screen | |
| ``trail`` | how far a run was followed, and how long it is looked for | |
| ``client`` | HTTP: start, follow over lost connections, cancel | |
| ``output`` | where a run goes: verbatim text, JSON, a terminal | |
| ``turn`` | one run from the question to the end, with Ctrl-C | |
| ``session`` | the turns of one thread, signals, exit codes | |
| ``command`` | options, standard input | |
"""
