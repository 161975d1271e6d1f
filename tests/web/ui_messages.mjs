// A chat with the AI SDK's own client: `node ui_messages.mjs NODE_MODULES URL`. Prints what its page would show.
import { pathToFileURL } from "node:url";
const [modules, url] = process.argv.slice(2);
const ai = await import(pathToFileURL(`${modules}/ai/dist/index.js`));

class State {
  status = "ready"; error = undefined; messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, message); };
  snapshot = (value) => structuredClone(value);
}
class Chat extends ai.AbstractChat {
  constructor(options) { super({ ...options, state: new State() }); }
}
const headers = { authorization: "Bearer ada", origin: "https://shop.example" };
const chat = new Chat({
  id: "chat-1",
  transport: new ai.DefaultChatTransport({ api: `${url}/ui-messages`, headers, prepareReconnectToStreamRequest: ({ id }) => ({ api: `${url}/ui-messages/${id}/stream`, headers }) }),
  sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  onError: (error) => { console.error(error); process.exitCode = 1; },
});
const find = (state) => chat.messages.at(-1)?.parts.find((part) => part.state === state);
const until = async (holds) => { while (!holds()) await new Promise((done) => setTimeout(done, 10)); };

await chat.sendMessage({ text: "hello there" });
await chat.sendMessage({ text: "refund o1 500" });
const asked = find("approval-requested");
await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
await until(() => find("output-available") && chat.status === "ready");
await chat.sendMessage({ text: "refund o2 700" });
await chat.addToolApprovalResponse({ id: find("approval-requested").approval.id, approved: false, reason: "Too much." });
await until(() => find("output-error") && chat.status === "ready");
console.log(JSON.stringify(chat.messages.map(({ role, parts }) => [role, parts.map((part) => part.type === "text" ? part.text : part.type === "dynamic-tool" ? [part.toolName, part.state, part.input, part.output ?? part.errorText] : part.type)])));
