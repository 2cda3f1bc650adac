"""``anabranch chat``: a client of AG-UI servers and A2A agents, for a terminal and for a pipe.

It reads AG-UI; what an A2A agent says is put into that by what our server has for it (``bridge``).

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
| ``peer`` | what is asked, in whatever protocol | |
| ``client`` | AG-UI over HTTP: start, follow over lost connections, cancel | |
| ``bridge`` | what an A2A agent says, as AG-UI | yes |
| ``a2a`` | an A2A agent: the ``a2a`` source asks it, follows it, cancels it | |
| ``guess`` | a server of which nobody said what it speaks | |
| ``output`` | where a run goes: verbatim text, JSON, a terminal | |
| ``turn`` | one run from the question to the end, with Ctrl-C | |
| ``session`` | the turns of one thread, signals, exit codes | |
| ``command`` | options, standard input | |
"""
