import { Agent, type IncomingHttpHeaders } from 'node:http';
import { type HttpAnswer, send } from '#scripts/http/call.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { AUTH_SERVICE } from '#shared/auth/notices.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import {
  closed,
  type NeighbourCall,
  type Reply,
  refusal,
  remember,
  type Schema,
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

export interface NotificationStandIn extends StandIn {
  losses: LostReplies;
  /** Passes every event on to the notification service at this URL; null: stores it here. */
  forwardTo(url: string | null): void;
  /** Returns how often an event arrived. */
  timesOf(sourceEventId: string): number;
  close(): void;
}

const TIMEOUT_MS = 10_000;

const ABOUT: Record<string, Schema> = {
  preferenceType: TEXT,
  entity: TEXT,
  entityId: TEXT,
  organizationId: TEXT,
};
const NOTICE = closed({ userId: TEXT, type: TEXT, title: TEXT, content: TEXT, ...ABOUT }, ['organizationId']);
/** Body of the notices that examhall sends. Other producers may send more; their receiver is examhall itself. */
const EVENT = closed(
  {
    sourceService: { enum: [ATTEMPT_SERVICE] },
    sourceEventId: TEXT,
    type: TEXT,
    ...ABOUT,
    targetUserIds: { type: 'array', items: TEXT },
    notifications: { type: 'array', minItems: 1, items: NOTICE },
    payload: { type: 'object' },
  },
  ['organizationId'],
);

/** Body of the notices that the auth service sends: a batch of one, whose event makes a repeat harmless. */
const BATCH = closed({
  notifications: { type: 'array', minItems: 1, maxItems: 1, items: NOTICE },
  event: closed(
    {
      sourceService: { enum: [AUTH_SERVICE] },
      sourceEventId: TEXT,
      type: TEXT,
      ...ABOUT,
      targetUserIds: { type: 'array', items: TEXT },
      payload: { type: 'object' },
    },
    ['organizationId'],
  ),
});

/** Opens the intake of a notification service, which recognizes a repeat by the pair of service and event id. */
export function notificationStandIn(): NotificationStandIn {
  const agent = new Agent({ keepAlive: true });
  const events = new Map<string, { times: number; recipients: number }>();
  const lost = new Set<string>();
  const recognised = new Set<string>();
  const doubled: string[] = [];
  let target: string | null = null;

  function store(call: NeighbourCall): Reply {
    const { sourceEventId } = eventIn(call);
    const isReplay = (events.get(sourceEventId)?.times ?? 0) > 1;
    const { notifications, payload: _payload, ...event } = membersOf(call.body);
    const created = isReplay || !Array.isArray(notifications) ? 0 : notifications.length;
    const data = { event, created, suppressed: [], replayed: isReplay };
    return { status: isReplay ? 200 : 201, body: { success: true, data, message: 'OK' } };
  }

  async function forward(url: string, { method, path, headers, bytes }: NeighbourCall): Promise<Reply> {
    const answer = await send(url, {
      method,
      target: path,
      headers: { ...passedOn(headers), 'content-length': String(bytes.length) },
      body: bytes,
      agent,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => null);
    if (answer === null) return refusal(503, 'UNAVAILABLE', 'the service behind this stand-in sent no reply');
    return { status: answer.status, headers: passedOn(answer.headers), body: answer.body.toString('utf8') };
  }

  async function take(call: NeighbourCall): Promise<Reply> {
    const { sourceService, sourceEventId: id } = eventIn(call);
    if (call.headers['x-internal-service'] !== sourceService)
      return refusal(403, 'NOTIFICATION_SOURCE_MISMATCH', 'the event names another service');
    const { notifications } = membersOf(call.body);
    const recipients = Array.isArray(notifications) ? notifications.length : 0;
    remember(events, id, { times: (events.get(id)?.times ?? 0) + 1, recipients });
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
    timesOf: (id) => events.get(id)?.times ?? 0,
    replyLost(call, { status }) {
      if (isStored(status)) lost.add(eventIn(call).sourceEventId);
    },
    close: () => agent.destroy(),
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
      events: events.size,
      byId: Object.fromEntries(events),
      lost: lost.size,
      recognised: recognised.size,
      doubled,
    }),
    forget() {
      for (const ids of [events, lost, recognised]) ids.clear();
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

/** Returns the headers of the message, without those of its connection. */
function passedOn(headers: IncomingHttpHeaders | HttpAnswer['headers']): Record<string, string> {
  const { host, connection, 'keep-alive': keepAlive, 'transfer-encoding': encoding, ...passed } = headers;
  return Object.fromEntries(Object.entries(passed).map(([name, value]) => [name, String(value)]));
}
