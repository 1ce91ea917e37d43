import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { IntakeReply } from '#shared/generated/notification.ts';
import { bytesOf, type LocalServer, listenLocally } from './local-server.ts';

/** A bad line in front of the notification service: all calls reach it, some of its replies are lost. */
export interface LossyIntake extends LocalServer {
  /** Events that the service took and whose sender was told 503 instead. Each must come again. */
  lost(): number;
  /** How many of those came again and were recognised: `replayed`, nothing created. */
  recognised(): number;
  /** Of those, the source event ids that were taken as something new. Must stay empty. */
  doubled: readonly string[];
}

const LOSE_EVERY = 25;
const MAX_BODY_BYTES = 8 * 1024 * 1024;
const PATIENCE_MS = 10_000;

/** Forwards everything to the service at `url`; every 25th reply that tells of a new event is lost. */
export async function openLossyIntake(url: string): Promise<LossyIntake> {
  const agent = new Agent({ keepAlive: true });
  const lost = new Set<string>();
  const recognised = new Set<string>();
  const doubled: string[] = [];
  let taken = 0;

  /** Whether this reply is to be lost. */
  function judge(sent: Buffer, reply: ForwardedReply): boolean {
    if (reply.status !== 200 && reply.status !== 201) return false;
    const { sourceEventId = '' } = JSON.parse(sent.toString('utf8')) as { sourceEventId?: string };
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

  const server = await listenLocally(0, async (incoming, response) => {
    const body = await bytesOf(incoming, MAX_BODY_BYTES);
    const reply = await forward({ url, agent }, incoming, body);
    const isIntake = incoming.method === 'POST' && incoming.url === '/v1/events/notification';
    if (isIntake && judge(body, reply)) {
      response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' });
      response.end('{}');
      return;
    }
    response.writeHead(reply.status, passedOn(reply.headers));
    response.end(reply.body);
  });

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

interface ForwardedReply {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

async function forward(
  to: { url: string; agent: Agent },
  incoming: IncomingMessage,
  body: Buffer,
): Promise<ForwardedReply> {
  const sent = request(new URL(incoming.url ?? '/', to.url), {
    agent: to.agent,
    method: incoming.method ?? 'GET',
    headers: { ...passedOn(incoming.headers), 'content-length': body.length },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  sent.end(body);
  const [reply] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: reply.statusCode ?? 502, headers: reply.headers, body: await bytesOf(reply, MAX_BODY_BYTES) };
}

/** Headers that belong to the message and not to its connection. */
function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { host, connection, 'keep-alive': keepAlive, 'transfer-encoding': encoding, ...passed } = headers;
  return passed;
}
