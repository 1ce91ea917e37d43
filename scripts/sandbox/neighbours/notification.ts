import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { AUTH_SERVICE } from '#shared/auth/notices.ts';
import { membersOf } from '#shared/kernel/json.ts';
import {
  closed,
  fields,
  type NeighbourCall,
  ok,
  openJournal,
  type Reply,
  refusal,
  type StandIn,
  TEXT,
  textIn,
} from './stand-in.ts';

/** Events whose reply was lost on purpose. The sender must repeat each. */
export type LostReplies = ReturnType<typeof notificationStandIn>['losses'];

const TIMEOUT_MS = 10_000;

const ABOUT = fields(TEXT, 'preferenceType', 'entity', 'entityId');
const ORGANIZATION = { organizationId: TEXT };
const NOTICE = closed({ ...fields(TEXT, 'userId', 'type', 'title', 'content'), ...ABOUT }, ORGANIZATION);
const SOURCE = {
  ...fields(TEXT, 'sourceEventId', 'type'),
  ...ABOUT,
  targetUserIds: { type: 'array', items: TEXT },
  payload: { type: 'object' },
};
const NOTICES = { type: 'array', minItems: 1, items: NOTICE };
/** Body of the notices that examhall sends. Other producers may send more; their receiver is examhall itself. */
const EVENT = closed({ ...SOURCE, sourceService: { const: ATTEMPT_SERVICE }, notifications: NOTICES }, ORGANIZATION);
/** Body of the notices that the auth service sends: a batch of one, whose event makes a repeat harmless. */
const BATCH = closed({
  notifications: { ...NOTICES, maxItems: 1 },
  event: closed({ ...SOURCE, sourceService: { const: AUTH_SERVICE } }, ORGANIZATION),
});

/** Opens the intake of a notification service, which recognizes a repeat by the pair of service and event id. */
export function notificationStandIn() {
  const events = openJournal<{ recipients: number }>('events');
  const lost = new Set<string>();
  const recognised = new Set<string>();
  const doubled: string[] = [];
  let target: string | null = null;

  function store({ body }: NeighbourCall, recipients: number, replayed: boolean): Reply {
    const { notifications: _notices, payload: _payload, ...event } = membersOf(body);
    return ok({ event, created: replayed ? 0 : recipients, suppressed: [], replayed }, replayed ? 200 : 201);
  }

  async function forward(url: string, { method, path, headers, text: body }: NeighbourCall): Promise<Reply> {
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const answer = await fetch(`${url}${path}`, { method, headers: passedOn(headers), body, signal });
      const returned = passedOn(Object.fromEntries(answer.headers));
      return { status: answer.status, headers: returned, body: await answer.text() };
    } catch {
      return refusal(503, 'UNAVAILABLE', 'the service behind this stand-in sent no reply');
    }
  }

  async function take(call: NeighbourCall): Promise<Reply> {
    const { sourceService, sourceEventId: id } = eventIn(call);
    if (call.headers['x-internal-service'] !== sourceService)
      return refusal(403, 'NOTIFICATION_SOURCE_MISMATCH', 'the event names another service');
    const { notifications } = call.body as { notifications: readonly unknown[] };
    const recipients = notifications.length;
    const isReplay = events.note(id, { recipients }) > 1;
    const reply = target === null ? store(call, recipients, isReplay) : await forward(target, call);
    if (lost.has(id)) judgeRepeat(id, reply);
    return reply;
  }

  function judgeRepeat(id: string, { status, body }: Reply): void {
    if (!isStored(status)) return;
    const { data } = membersOf(typeof body === 'string' ? JSON.parse(body) : body);
    if (status === 200 && membersOf(data).created === 0) recognised.add(id);
    else doubled.push(id);
  }

  return {
    losses: {
      /** Returns the number of events that were stored and whose sender got no success. */
      lost: () => lost.size,
      /** Returns the number of those events whose repeat was answered with `replayed` and created nothing. */
      recognised: () => recognised.size,
      /** Source event ids of repeats that were stored as new events. Must stay empty. */
      doubled: doubled as readonly string[],
    },
    /** Passes every event on to the notification service at this URL; null: stores it here. */
    forwardTo(url: string | null): void {
      target = url;
    },
    timesOf: events.timesOf,
    replyLost(call: NeighbourCall, { status }: Reply) {
      if (isStored(status)) lost.add(eventIn(call).sourceEventId);
    },
    routes: [
      { method: 'POST', path: /^\/v1\/events\/notification$/, senders: [ATTEMPT_SERVICE], shape: EVENT, answer: take },
      { method: 'POST', path: /^\/v1\/notifications\/batch$/, senders: [AUTH_SERVICE], shape: BATCH, answer: take },
    ],
    state: () => ({ forwardsTo: target, ...events.state(), lost: lost.size, recognised: recognised.size, doubled }),
    forget() {
      for (const ids of [lost, recognised]) ids.clear();
      events.forget();
      doubled.length = 0;
    },
  } satisfies StandIn & Record<string, unknown>;
}

/** Returns the replay key of an event, or of the event in a batch. */
function eventIn({ body }: NeighbourCall) {
  const event = membersOf(body).event ?? body;
  return { sourceService: textIn(event, 'sourceService'), sourceEventId: textIn(event, 'sourceEventId') };
}

function isStored(status: number): boolean {
  return status === 200 || status === 201;
}

/** Headers of a connection. Their values hold for one hop, and `fetch` sets its own. */
const OF_CONNECTION = /^(?:host|connection|keep-alive|transfer-encoding|content-length|content-encoding)$/;

function passedOn(headers: NeighbourCall['headers']): Record<string, string> {
  const passed = Object.entries(headers).filter(([name]) => !OF_CONNECTION.test(name));
  return Object.fromEntries(passed.map(([name, value]) => [name, String(value)]));
}
