import type { EventStream } from '#api/http/event-stream.ts';
import { type Alarm, liveStream } from '#api/http/live-stream.ts';
import type { Call, RawReply } from '#api/route.ts';
import { countUnread, recentNotifications } from '#infra/mongo/notification/inbox.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, SECOND } from '#shared/kernel/time.ts';
import { notificationView } from '#shared/notification/notification.ts';
import {
  advance,
  decodeCursor,
  encodeCursor,
  lookFrom,
  type StreamCursor,
} from '#shared/notification/stream-cursor.ts';
import { callerOf, type NotificationDeps } from './deps.ts';

/** How often a stream looks by itself while wakes of other processes cannot arrive; while they can, for those that got lost. */
const POLL_DEAF_MS = 3 * SECOND;
const POLL_MS = 60 * SECOND;
/** Between two looks of one stream: a burst of changes is told as one. */
const PAUSE_MS = 200;
/** A client that was away longer begins anew. */
const OLDEST_MS = 1 * DAY;

/** What a stream has told its client so far. */
interface Told {
  cursor: StreamCursor;
  unreadCount: number;
}

/**
 * The caller's inbox, live: first the count of what is unread, then each new notification and each change of that count. Whoever
 * comes back with a Last-Event-ID is told what came meanwhile. Every count is absolute.
 */
export async function streamInbox(deps: NotificationDeps, call: Call): Promise<RawReply | Rejection> {
  const userId = callerOf(call.identity).id;
  return liveStream({
    streams: deps.streams,
    now: deps.now,
    holder: userId,
    listen: (changed) => deps.inboxes.listen(userId, changed),
    async begin() {
      const resumed = decodeCursor(call.headers['last-event-id'] ?? '', deps.now(), OLDEST_MS);
      const told = await begin(deps, userId, resumed);
      return {
        kind: 'follow',
        follow(stream, alarm) {
          const { unreadCount, cursor } = told;
          stream.send({ event: 'snapshot', data: { unreadCount }, id: encodeCursor(cursor) });
          // What came while its client was away is told at once.
          if (resumed !== null) alarm.ring();
          return follow(deps, { userId, stream, alarm }, told);
        },
      };
    },
  });
}

/** Where a stream starts: where its client left off, else at what is there now. */
async function begin(deps: NotificationDeps, userId: string, resumed: StreamCursor | null): Promise<Told> {
  const lookedAt = deps.now();
  const nothing: StreamCursor = { lookedAt, known: new Map() };
  const [unreadCount, rows] = await Promise.all([
    countUnread(deps.mongo, userId),
    resumed === null ? recentNotifications(deps.mongo, userId, lookFrom(nothing)) : [],
  ]);
  return { unreadCount, cursor: resumed ?? advance(nothing, rows, lookedAt).cursor };
}

interface Following {
  userId: string;
  stream: EventStream;
  alarm: Alarm;
}

async function follow(deps: NotificationDeps, { userId, stream, alarm }: Following, start: Told): Promise<void> {
  let told = start;
  let deaf = false;
  // Apart from each other: a thousand streams that opened together should not look together.
  let lookBy = performance.now() + POLL_MS * Math.random();
  while (stream.isOpen()) {
    const rung = await alarm.wait(POLL_DEAF_MS);
    if (!stream.isOpen()) return;
    // What was said while nobody heard was said to nobody: one more look when hearing has come back.
    deaf ||= !deps.inboxes.canHear();
    if (!rung && !deaf && performance.now() < lookBy) continue;
    deaf = !deps.inboxes.canHear();
    told = await tellNews(deps, userId, stream, told).catch((err: unknown) => {
      deps.log.debug({ err }, 'a live inbox could not be read; trying on');
      deaf = true;
      return told;
    });
    lookBy = performance.now() + POLL_MS;
    await alarm.pause(PAUSE_MS);
  }
}

async function tellNews(deps: NotificationDeps, userId: string, stream: EventStream, told: Told): Promise<Told> {
  const lookedAt = deps.now();
  const [rows, unreadCount] = await Promise.all([
    recentNotifications(deps.mongo, userId, lookFrom(told.cursor)),
    countUnread(deps.mongo, userId),
  ]);
  const { fresh, cursor } = advance(told.cursor, rows, lookedAt);
  const id = encodeCursor(cursor);
  // The id of all but the last stays the old one: a client that is cut off in between is told the rest again.
  for (const [at, row] of fresh.entries()) {
    const last = at === fresh.length - 1;
    stream.send({ event: 'notification', data: { notification: notificationView(row) }, ...(last ? { id } : {}) });
    await stream.taken();
  }
  if (unreadCount !== told.unreadCount) stream.send({ event: 'counts', data: { unreadCount }, id });
  return { cursor, unreadCount };
}
