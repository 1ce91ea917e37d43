import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Student } from './students.ts';

/** What the receiver was sent under one source event id. */
export interface Received {
  attemptId: string;
  recipients: string[];
  /** Deliveries of it, repeats included. */
  times: number;
}

/** Stands in for the notification service and for the profile service, which do not run here. */
export interface Receiver {
  url: string;
  /** By source event id: the key by which a receiver tells a repeat from something new. */
  received: ReadonlyMap<string, Received>;
  /** Replies that were lost on purpose, each of which must bring the notice again. */
  lostReplies(): number;
  /** Deliveries whose contents differed from an earlier one under the same id. Must stay empty. */
  changed: readonly string[];
  close(): Promise<void>;
}

/** How the id of every demo's exam begins. */
export const DEMO_EXAMS = 'demo-toan-2025-';

const LOSE_EVERY = 25;
const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Takes the notices of this exam, once per source event id, and knows the parents of these students. What earlier demos
 * left waiting is taken and not counted. To anything else it answers 403, which the dispatcher reads as a fault of
 * configuration: the row goes back, unspent, and waits for its real receiver. Every 25th new notice is kept but its reply is a 503, as when a reply is lost.
 */
export async function openReceiver(
  options: { port: number },
  facts: { examId: string; students: readonly Student[] },
): Promise<Receiver> {
  const parents = new Map(facts.students.map((student) => [student.id, student.parentIds]));
  const received = new Map<string, Received>();
  const changed: string[] = [];
  let lost = 0;

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    const student = /^\/v1\/students\/([^/?]+)\/parents$/.exec(path)?.[1];
    if (request.method === 'GET' && student !== undefined) return parentsOf(decodeURIComponent(student), response);
    if (request.method === 'POST' && path === '/v1/events/notification') return take(await bodyOf(request), response);
    reply(response, 404, {});
  }

  function parentsOf(studentId: string, response: ServerResponse): void {
    const ids = parents.get(studentId);
    if (ids === undefined) reply(response, 403, {});
    else reply(response, ids.length === 0 ? 404 : 200, { success: true, data: { parentIds: ids } });
  }

  function take(body: IntakeBody, response: ServerResponse): void {
    const examId = body.payload?.examId ?? '';
    if (body.payload === undefined || examId !== facts.examId) {
      reply(response, examId.startsWith(DEMO_EXAMS) ? 200 : 403, {});
      return;
    }
    const recipients = body.notifications.map((notification) => notification.userId);
    const known = received.get(body.sourceEventId);
    if (known !== undefined) {
      known.times += 1;
      if (known.recipients.join() !== recipients.join()) changed.push(body.sourceEventId);
      reply(response, 200, { success: true, data: { created: 0, replayed: true } });
      return;
    }
    received.set(body.sourceEventId, { attemptId: body.payload.attemptId, recipients, times: 1 });
    if (received.size % LOSE_EVERY === 0) {
      lost += 1;
      reply(response, 503, {}, { 'retry-after': '1' });
      return;
    }
    reply(response, 201, { success: true, data: { created: recipients.length, replayed: false } });
  }

  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    changed,
    lostReplies: () => lost,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface IntakeBody {
  sourceEventId: string;
  notifications: { userId: string }[];
  payload?: { attemptId: string; examId: string };
}

async function bodyOf(request: IncomingMessage): Promise<IntakeBody> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > MAX_BODY_BYTES) throw new Error('the notice is too large');
    chunks.push(chunk as Buffer);
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as IntakeBody;
}

function reply(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
