import { Agent, type IncomingHttpHeaders } from 'node:http';
import { type HttpAnswer, send } from '#scripts/http/call.ts';
import { answerJson, type LocalServer, listenLocally, type ReceivedCall } from '#scripts/http/local-server.ts';
import type { IntakeReply } from '#shared/generated/notification.ts';

/** A proxy in front of the notification service: every call reaches the service, and some replies are lost. */
export interface LossyIntake extends LocalServer {
  /** Number of events that the service stored and whose sender received 503. The sender must repeat each. */
  lost(): number;
  /** Number of those events whose repeat the service answered with `replayed` and created nothing. */
  recognised(): number;
  /** Source event ids of repeats that the service stored as new events. Must stay empty. */
  doubled: readonly string[];
}

const LOSE_EVERY = 25;
const MAX_BODY_BYTES = 8 * 1024 * 1024;
const TIMEOUT_MS = 10_000;

/** Forwards every call to the service at `url`. Replaces every 25th reply to a new event by a 503. */
export async function openLossyIntake(url: string): Promise<LossyIntake> {
  const agent = new Agent({ keepAlive: true });
  const lost = new Set<string>();
  const recognised = new Set<string>();
  const doubled: string[] = [];
  let taken = 0;

  /** Returns whether to lose this reply, and records a repeat of a lost one. */
  function judge(sent: string, reply: HttpAnswer): boolean {
    if (reply.status !== 200 && reply.status !== 201) return false;
    const { sourceEventId = '' } = JSON.parse(sent) as { sourceEventId?: string };
    const { data } = JSON.parse(reply.body.toString('utf8')) as { data: IntakeReply };
    if (lost.has(sourceEventId)) {
      if (data.replayed && data.created === 0) recognised.add(sourceEventId);
      else doubled.push(sourceEventId);
      return false;
    }
    if (data.replayed || ++taken % LOSE_EVERY !== 0) return false;
    lost.add(sourceEventId);
    return true;
  }

  const server = await listenLocally(
    async (call, response) => {
      const reply = await forward({ url, agent }, call);
      const isIntake = call.method === 'POST' && call.path === '/v1/events/notification';
      if (isIntake && judge(call.text, reply)) {
        answerJson(response, { status: 503, headers: { 'retry-after': '1' } });
        return;
      }
      response.writeHead(reply.status, passedOn(reply.headers));
      response.end(reply.body);
    },
    { maxBodyBytes: MAX_BODY_BYTES, survivesErrors: true },
  );

  return {
    url: server.url,
    lost: () => lost.size,
    recognised: () => recognised.size,
    doubled,
    async close() {
      agent.destroy();
      await server.close();
    },
  };
}

function forward(to: { url: string; agent: Agent }, { method, path, headers, bytes }: ReceivedCall) {
  return send(to.url, {
    method,
    target: path,
    headers: { ...passedOn(headers), 'content-length': String(bytes.length) },
    body: bytes,
    agent: to.agent,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

/** Returns the headers of the message, without those of its connection. */
function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { host, connection, 'keep-alive': keepAlive, 'transfer-encoding': encoding, ...passed } = headers;
  return passed;
}
