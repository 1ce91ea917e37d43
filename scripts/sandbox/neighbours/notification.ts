import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { AUTH_SERVICE } from '#shared/auth/notices.ts';
import { membersOf } from '#shared/kernel/json.ts';
import {
  closed,
  fields,
  type Journal,
  type NeighbourCall,
  openJournal,
  type Reply,
  refusal,
  type StandIn,
  TEXT,
  textIn,
} from './stand-in.ts';

/** Events whose reply was lost on purpose. The sender must repeat each. */
export interface LostReplies {
  /** Number of events that were stored and whose sender got no success. */
  lost(): number;
  /** Number of those events whose repeat was answered with `replayed` and created nothing. */
  recognised(): number;
  /** Source event ids of repeats that were stored as new events. Must stay empty. */
  doubled: readonly string[];
}

export interface NotificationStandIn extends StandIn, Pick<Journal<object>, 'timesOf'> {
  losses: LostReplies;
  /** Passes every event on to the notification service at this URL; null: stores it here. */
  forwardTo(url: string | null): void;
}

const TIMEOUT_MS = 10_000;

const ABOUT = fields(TEXT, 'preferenceType', 'entity', 'entityId', 'organizationId');
const NOTICE = closed({ ...fields(TEXT, 'userId', 'type', 'title', 'content'), ...ABOUT }, ['organizationId']);
const SOURCE = {
  ...fields(TEXT, 'sourceEventId', 'type'),
  ...ABOUT,
  targetUserIds: { type: 'array', items: TEXT },
  payload: { type: 'object' },
};
const NOTICES = { type: 'array', minItems: 1, items: NOTICE };
/** Body of the notices that examhall sends. Other producers may send more; their receiver is examhall itself. */
const EVENT = closed({ ...SOURCE, sourceService: { enum: [ATTEMPT_SERVICE] }, notifications: NOTICES }, [
  'organizationId',
]);
/** Body of the notices that the auth service sends: a batch of one, whose event makes a repeat harmless. */
const BATCH = closed({
  notifications: { ...NOTICES, maxItems: 1 },
  event: closed({ ...SOURCE, sourceService: { enum: [AUTH_SERVICE] } }, ['organizationId']),
});

/** Opens the intake of a notification service, which recognizes a repeat by the pair of service and event id. */
export function notificationStandIn(): NotificationStandIn {
  const events = openJournal<{ recipients: number }>('events');
  const lost = new Set<string>();
  const recognised = new Set<string>();
  const doubled: string[] = [];
  let target: string | null = null;

  function store(call: NeighbourCall): Reply {
    const isReplay = events.timesOf(eventIn(call).sourceEventId) > 1;
    const { notifications, payload: _payload, ...event } = membersOf(call.body);
    const created = isReplay || !Array.isArray(notifications) ? 0 : notifications.length;
    const data = { event, created, suppressed: [], replayed: isReplay };
    return { status: isReplay ? 200 : 201, body: { success: true, data, message: 'OK' } };
  }

  async function forward(url: string, { method, path, headers, text }: NeighbourCall): Promise<Reply> {
    try {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers: passedOn(headers),
        body: text,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return {
        status: answer.status,
        headers: passedOn(Object.fromEntries(answer.headers)),
        body: await answer.text(),
      };
    } catch {
      return refusal(503, 'UNAVAILABLE', 'the service behind this stand-in sent no reply');
    }
  }

  async function take(call: NeighbourCall): Promise<Reply> {
    const { sourceService, sourceEventId: id } = eventIn(call);
    if (call.headers['x-internal-service'] !== sourceService)
      return refusal(403, 'NOTIFICATION_SOURCE_MISMATCH', 'the event names another service');
    const { notifications } = membersOf(call.body);
    const recipients = Array.isArray(notifications) ? notifications.length : 0;
    events.note(id, { recipients });
    const reply = target === null ? store(call) : await forward(target, call);
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
    losses: { lost: () => lost.size, recognised: () => recognised.size, doubled },
    forwardTo(url) {
      target = url;
    },
    timesOf: events.timesOf,
    replyLost(call, { status }) {
      if (isStored(status)) lost.add(eventIn(call).sourceEventId);
    },
    routes: [
      {
        method: 'POST',
        path: /^\/v1\/events\/notification$/,
        senders: [ATTEMPT_SERVICE],
        shape: EVENT,
        answer: take,
      },
      {
        method: 'POST',
        path: /^\/v1\/notifications\/batch$/,
        senders: [AUTH_SERVICE],
        shape: BATCH,
        answer: take,
      },
    ],
    state: () => ({
      forwardsTo: target,
      ...events.state(),
      lost: lost.size,
      recognised: recognised.size,
      doubled,
    }),
    forget() {
      events.forget();
      for (const ids of [lost, recognised]) ids.clear();
      doubled.length = 0;
    },
  };
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
