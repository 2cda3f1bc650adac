// The official AG-UI clients, two generations, as judges: sessions in, one JSON object a line on stdin; what each client
// made of them out, one line each. In one process, because loading the clients takes longer than most runs.
//
// {client, runs: [{body, input}], url, headers}: each run is a real HttpAgent.runAgent(), one agent for the whole session.
// With a `body` (server-sent events) the network is replaced by it; without one, `url` is asked.
import { createInterface } from "node:readline";

process.env.NODE_ENV ??= "production";
const CLIENTS = { "1.0.0": await import("@ag-ui/client"), "0.0.59": await import("client059") };
const RUN_TIMEOUT_MS = 20_000;

let warnings = [];
for (const level of ["log", "info", "warn", "error"]) {
  console[level] = (...said) => warnings.push(said.map((word) => word?.message ?? String(word)).join(" "));
}

const terminal = (event) => event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";

async function observe(agent, input) {
  const events = [];
  let violation = null;
  warnings = [];
  const timer = setTimeout(() => {
    violation = `no end after ${RUN_TIMEOUT_MS} ms`;
    agent.abortRun();
  }, RUN_TIMEOUT_MS);
  try {
    await agent.runAgent({ runId: "r1", ...input }, { onEvent: ({ event }) => void events.push(event) });
  } catch (error) {
    violation ??= error.message;
  }
  clearTimeout(timer);
  // The clients take the end of the stream for a success, whatever came before it.
  if (!violation && !(events.length && terminal(events.at(-1)))) violation = "no terminal event, last";
  return { events, violation, warnings };
}

async function session({ client, runs, url, headers, threadId, messages, state }) {
  const { HttpAgent } = CLIENTS[client];
  const sent = [];
  let body;
  const recorded = async (_, request) => {
    sent.push(JSON.parse(request.body));
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const agent = new HttpAgent({
    url: url ?? "http://recorded.invalid/",
    headers,
    threadId: threadId ?? "t1",
    initialMessages: messages ?? [],
    initialState: state ?? {},
    ...(url ? {} : { fetch: recorded }),
  });
  const seen = [];
  for (const run of runs) {
    body = run.body;
    for (const message of run.input?.messages ?? []) agent.messages.push(message);
    const { messages: _, ...input } = run.input ?? {};
    seen.push(await observe(agent, input));
  }
  return { runs: seen, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts ?? [], sent };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await session(JSON.parse(line)).catch((error) => ({ broken: error.stack }));
  process.stdout.write(JSON.stringify(answer) + "\n");
}
