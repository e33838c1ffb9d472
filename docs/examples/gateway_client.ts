// Streamed answers through a gateway: npm install openai (for Node 20, openai@6)
//
// The gateway sends no headers before the first token, so what `maxRetries` repeats, after the time
// that Retry-After says, has generated nothing. From the first token on nothing is repeated: an
// answer that breaks off throws, and what came of it is yours to keep or to drop.
import { once } from "node:events";
import { pathToFileURL } from "node:url";
import OpenAI from "openai";

/** Tokens that this program may use: the most that a request may need is taken before it is sent,
 * and what it did not use is given back. */
export class TokenBudget {
  constructor(public left: number) {}

  reserve(tokens: number): (used: number) => void {
    if (tokens > this.left) {
      throw new Error(`The request may need ${tokens} tokens, and ${this.left} are left.`);
    }
    this.left -= tokens;
    let settled = false;
    return (used) => {
      if (!settled) this.left += tokens - used;
      settled = true;
    };
  }
}

export interface Question {
  model: string;
  prompt: string;
  maxTokens: number;
  /** Ends the request: the connection closes, and the server stops generating. */
  signal?: AbortSignal;
}

/** The pieces of an answer. The next one is read when it is asked for: a reader that pauses holds
 * the server back, and one that leaves the loop ends the request. */
export async function* ask(
  client: OpenAI,
  budget: TokenBudget,
  { model, prompt, maxTokens, signal }: Question,
): AsyncGenerator<string, void, undefined> {
  // A prompt has no more tokens than bytes, but for a few that its template adds.
  const settle = budget.reserve(Buffer.byteLength(prompt) + 64 + maxTokens);
  const stream = await client.chat.completions
    .create(
      {
        model,
        messages: [{ role: "user", content: prompt }],
        max_tokens: maxTokens,
        stream: true,
        stream_options: { include_usage: true },
      },
      { signal },
    )
    .catch((refused: unknown) => {
      settle(0); // nothing was generated
      throw refused;
    });
  let finished = false;
  for await (const chunk of stream) {
    if (chunk.usage) settle(chunk.usage.total_tokens);
    const choice = chunk.choices[0];
    if (choice?.delta.content) yield choice.delta.content;
    if (choice?.finish_reason) finished = true;
  }
  // Without usage, as when it broke off, all that was taken counts as used.
  if (signal?.aborted) throw new OpenAI.APIUserAbortError();
  if (!finished) throw new Error("The answer ended before it was whole.");
}

/** Each argument is a question; OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say whom to ask. */
async function main(prompts: string[]): Promise<void> {
  const client = new OpenAI({ maxRetries: 4 });
  const budget = new TokenBudget(Number(process.env.TOKEN_BUDGET ?? 100_000));
  const cancel = new AbortController();
  process.once("SIGINT", () => cancel.abort());
  const model = process.env.OPENAI_MODEL ?? "";
  for (const prompt of prompts) {
    const question = { model, prompt, maxTokens: 512, signal: cancel.signal };
    for await (const piece of ask(client, budget, question)) {
      if (!process.stdout.write(piece)) await once(process.stdout, "drain");
    }
    process.stdout.write("\n");
    console.error(`${budget.left} tokens are left.`);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  main(process.argv.slice(2)).catch((error: unknown) => {
    if (error instanceof OpenAI.APIError && error.code) {
      console.error(`${error.code}: ${error.message}`); // `code` is the gateway's reason
    } else {
      console.error(error instanceof Error ? error.message : error);
    }
    process.exitCode = 1;
  });
}
