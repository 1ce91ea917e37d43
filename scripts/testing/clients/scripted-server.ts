import type { ServerResponse } from 'node:http';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { type Client, type ClientOptions, type Clock, createClient } from '../../../clients/typescript/src/index.ts';

/** One reply of the script: a status with its body, or a function that misbehaves. */
export type Scripted =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown }
  | ((response: ServerResponse) => void);

export interface Script {
  readonly client: Client;
  readonly calls: ReceivedCall[];
  /** Pauses that the client made (ms). No time passes during them. */
  readonly pauses: number[];
  readonly clock: { advance(ms: number): void };
}

/** Opens a server that answers each call with the next reply of the script, and a client of it. A call beyond the script fails the test. */
export async function openScript(
  t: { teardown(work: () => unknown): void },
  replies: Scripted[],
  options: Partial<ClientOptions> = {},
): Promise<Script> {
  const calls: ReceivedCall[] = [];
  const pauses: number[] = [];
  const waiting = [...replies];
  const url = await openReceiver(t, (call, response) => {
    calls.push(call);
    const reply = waiting.shift();
    if (reply === undefined) throw new Error(`no reply is left for ${call.method} ${call.path}`);
    if (typeof reply === 'function') reply(response);
    else answerJson(response, reply);
  });
  let time = 0;
  const clock: Clock = {
    now: () => time,
    async pause(ms, signal) {
      signal?.throwIfAborted();
      pauses.push(ms);
      time += ms;
    },
  };
  const advance = (ms: number) => {
    time += ms;
  };
  return {
    client: createClient({ baseUrl: url, gatewayToken: 'the-gateway-token', clock, ...options }),
    calls,
    pauses,
    clock: { advance },
  };
}

export function success(data: unknown, status = 200): Scripted {
  return { status, body: { success: true, data, message: 'OK' } };
}

export function failure(status: number, code: string, headers: Record<string, string> = {}): Scripted {
  const body = { success: false, code, message: `${code} happened`, requestId: 'request-1' };
  return { status, headers: { 'x-request-id': 'request-1', ...headers }, body };
}

/** Ends the connection without a reply. */
export function hangUp(response: ServerResponse): void {
  response.destroy();
}

/** Answers with a stream of these lines, which ends at once. */
export function stream(...lines: string[]): Scripted {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.end(lines.join('\n'));
  };
}
