// A chat with AG-UI's own client: `node ag_ui.mjs NODE_MODULES URL`. Prints what its page would show.
import { pathToFileURL } from "node:url";
const [modules, url] = process.argv.slice(2);
const { HttpAgent } = await import(pathToFileURL(`${modules}/@ag-ui/client/dist/index.mjs`));

const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId: "thread-1", headers: { authorization: "Bearer ada", origin: "https://shop.example" } });
const outcomes = [];
let interrupts = [];
agent.subscribe({
  onRunFinishedEvent: ({ event }) => { outcomes.push(event.outcome?.type ?? "success"); interrupts = event.outcome?.interrupts ?? []; },
  onRunErrorEvent: ({ event }) => outcomes.push(`error ${event.message}`),
});
const say = (content) => { agent.addMessage({ id: crypto.randomUUID(), role: "user", content }); return agent.runAgent(); };
const answer = (payload) => agent.runAgent({ resume: interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload })) });

await say("hello there");
await say("refund o1 500");
const asked = interrupts.map(({ reason, message, toolCallId }) => [reason, message, toolCallId]);
await answer({ approved: true });
await say("refund o2 700");
await answer({ approved: false, reason: "Too much." });
console.log(JSON.stringify({ outcomes, asked, messages: agent.messages.map(({ role, content, toolCalls }) => [role, content ?? "", ...(toolCalls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)])]) }));
