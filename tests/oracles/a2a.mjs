// The official JavaScript clients of A2A against a real server: 1.3, the same where it speaks 0.3, and 0.3.14.
//
// One call an input line, {id, method, params}, after {client, binding, url} as the first; what a client made of each is
// {id, event} for each event of a stream, and {id, done} or {id, error} at its end. Everything is in the JSON of the
// version that the client's types have.
import { createInterface } from "node:readline";
import * as types from "@a2a-js/sdk";
import * as modern from "@a2a-js/sdk/client";
import * as old from "a2a03/client";

const CARD = ".well-known/agent-card.json";
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const message = (said) => ("status" in said ? types.Task.toJSON(said) : types.Message.toJSON(said));

async function* events(stream) {
  for await (const event of stream) yield types.StreamResponse.toJSON(event);
}

function modernMethods(client) {
  return {
    card: async () => types.AgentCard.toJSON(await client.getAgentCard()),
    send: async (given) => message(await client.sendMessage(types.SendMessageRequest.fromJSON(given))),
    stream: (given) => events(client.sendMessageStream(types.SendMessageRequest.fromJSON(given))),
    get: async (given) => types.Task.toJSON(await client.getTask(types.GetTaskRequest.fromJSON(given))),
    list: async (given) => types.ListTasksResponse.toJSON(await client.listTasks(types.ListTasksRequest.fromJSON(given))),
    cancel: async (given) => types.Task.toJSON(await client.cancelTask(types.CancelTaskRequest.fromJSON(given))),
    subscribe: (given) => events(client.resubscribeTask(types.SubscribeToTaskRequest.fromJSON(given))),
  };
}

function oldMethods(client) {
  return {
    card: () => client.getAgentCard(),
    send: (given) => client.sendMessage(given),
    stream: (given) => client.sendMessageStream(given),
    get: (given) => client.getTask(given),
    cancel: (given) => client.cancelTask(given),
    subscribe: (given) => client.resubscribeTask(given),
  };
}

async function connect({ client, binding, url }) {
  const sdk = client === "0.3.14" ? old : modern;
  const given = { legacyCompat: { enabled: client === "1.3 as 0.3" } };
  const transports = [new sdk.JsonRpcTransportFactory(given), new sdk.RestTransportFactory(given)];
  const factory = new sdk.ClientFactory({ transports, preferredTransports: [binding] });
  // With a slash at its end: what comes before it is kept.
  if (sdk === old) return oldMethods(await factory.createFromUrl(`${url}/`, CARD));
  const card = await modern.AgentCardResolver.default.resolve(`${url}/`, CARD);
  const spoken = client === "1.3" ? "1.0" : "0.3";
  card.supportedInterfaces = card.supportedInterfaces.filter((place) => place.protocolVersion === spoken);
  return modernMethods(await factory.createFromAgentCard(card));
}

async function answer(methods, { id, method, params }) {
  try {
    const made = methods[method](params);
    if (typeof made[Symbol.asyncIterator] !== "function") return say({ id, done: await made });
    for await (const event of made) say({ id, event });
    say({ id, done: null });
  } catch (error) {
    say({ id, error: `${error.name}: ${error.message}` });
  }
}

let methods;
for await (const line of createInterface({ input: process.stdin })) {
  if (methods) answer(methods, JSON.parse(line));
  else methods = await connect(JSON.parse(line));
}
