import { Agent, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpAnswer, NoReply, send } from '#scripts/http/call.ts';
import { listenLocally, type ReceivedCall } from '#scripts/http/local-server.ts';

/**
 * A gateway before several front doors, as a deployment has one. It sends calls to ready doors in turn, and follows `Retry-After`. It never
 * repeats a call without a reply: that call has failed for its student.
 */
export interface RollingGateway {
  url: string;
  /** Adds a front door, which receives calls while its `/readyz` answers 200. */
  join(door: string): void;
  /** Forgets a front door that has ended. */
  leave(door: string): void;
  /** Waits until the door receives calls. */
  untilReady(door: string): Promise<void>;
  /** Number of calls that each front door answered. */
  served: Map<string, number>;
  /** Number of calls that were sent again after a 503 with `Retry-After`. */
  retried(): number;
  /** Calls without a reply, with a 5xx that a client cannot follow, or refused for too long. */
  failures: string[];
  close(): Promise<void>;
}

/** Interval of the probes: a fraction of DRAIN_GRACE_MS, in which a door that stops still accepts calls. */
const PROBE_MS = 50;
/** Longest wait for a ready door, and number of sendings after 503. */
const NO_DOOR_MS = 60_000;
const MAX_SENDINGS = 20;
const CALL_TIMEOUT_MS = 60_000;
const MAX_WAIT_MS = 2_000;
/** Headers that belong to one connection. */
const OWN_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding', 'host', 'content-length']);

interface Door {
  url: string;
  agent: Agent;
  isReady: boolean;
  hasLeft: boolean;
}

/** Opens the gateway on a free port of this machine. */
export async function openRollingGateway(): Promise<RollingGateway> {
  const doors = new Map<string, Door>();
  const served = new Map<string, number>();
  const failures: string[] = [];
  let turn = 0;
  let retried = 0;
  let isOver = false;

  async function probe(door: Door): Promise<void> {
    while (!door.hasLeft && !isOver) {
      const reply = await send(door.url, { method: 'GET', target: '/readyz', timeoutMs: 2_000 }).catch(() => undefined);
      door.isReady = reply?.status === 200;
      await delay(PROBE_MS);
    }
  }

  async function nextDoor(): Promise<Door | undefined> {
    const giveUpAt = performance.now() + NO_DOOR_MS;
    while (performance.now() < giveUpAt && !isOver) {
      const ready = [...doors.values()].filter(({ isReady }) => isReady);
      const door = ready[turn++ % Math.max(1, ready.length)];
      if (door !== undefined) return door;
      await delay(PROBE_MS);
    }
    return undefined;
  }

  async function forward(call: ReceivedCall): Promise<HttpAnswer> {
    const what = `${call.method} ${call.path}`;
    for (let sending = 1; ; sending++) {
      const door = await nextDoor();
      if (door === undefined) return failed(`${what}: no front door is ready`);
      let answer: HttpAnswer;
      try {
        answer = await send(door.url, {
          method: call.method,
          target: call.path,
          headers: passed(call.headers),
          ...(call.bytes.length === 0 ? {} : { body: call.bytes }),
          agent: door.agent,
          timeoutMs: CALL_TIMEOUT_MS,
        });
      } catch (error) {
        if (!(error instanceof NoReply)) throw error;
        return failed(`${what}: no reply (${error.message})`);
      }
      served.set(door.url, (served.get(door.url) ?? 0) + 1);
      if (answer.status < 500) return answer;
      const seconds = Number(answer.headers['retry-after']);
      if (answer.status !== 503 || !(seconds >= 0) || sending === MAX_SENDINGS)
        return failed(`${what}: ${answer.status} ${answer.body.toString('utf8').slice(0, 200)}`);
      retried += 1;
      await delay(Math.min(seconds * 1_000, MAX_WAIT_MS));
    }
  }

  function failed(what: string): HttpAnswer {
    failures.push(what);
    return { status: 502, headers: { 'content-type': 'application/json' }, body: Buffer.from('{"code":"GATEWAY"}') };
  }

  async function serve(call: ReceivedCall, response: ServerResponse): Promise<void> {
    const { status, headers, body } = await forward(call);
    if (response.destroyed) return;
    response.writeHead(status, { ...passed(headers), 'content-length': body.length });
    response.end(body);
  }

  const server = await listenLocally(serve);
  return {
    url: server.url,
    join(url) {
      const door = { url, agent: new Agent({ keepAlive: true }), isReady: false, hasLeft: false };
      doors.set(url, door);
      void probe(door);
    },
    leave(url) {
      const door = doors.get(url);
      if (door === undefined) return;
      door.hasLeft = true;
      door.agent.destroy();
      doors.delete(url);
    },
    async untilReady(url) {
      while (doors.get(url)?.isReady !== true) await delay(PROBE_MS);
    },
    served,
    retried: () => retried,
    failures,
    async close() {
      isOver = true;
      for (const door of doors.values()) door.agent.destroy();
      await server.close();
    },
  };
}

/** Returns the headers that a gateway passes on. */
function passed(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || OWN_HEADERS.has(name) ? [] : [[name, value]],
    ),
  );
}
