import type { EventStream } from '#api/http/event-stream.ts';
import { type LiveStream, liveStream, type WakeSignal } from '#api/http/live-stream.ts';
import type { Call, RawReply } from '#api/route.ts';
import { countUnread, recentNotifications } from '#infra/mongo/notification/inbox.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, SECOND } from '#shared/kernel/time.ts';
import { notificationView } from '#shared/notification/notification.ts';
import {
  advance,
  decodeCursor,
  encodeCursor,
  pollFrom,
  type StreamCursor,
} from '#shared/notification/stream-cursor.ts';
import { callerOf, type NotificationDeps } from './deps.ts';

/**
 * Poll intervals of a stream. DISCONNECTED_POLL_MS applies while wakes of other processes cannot arrive. Otherwise POLL_MS applies and
 * finds changes whose wake was lost.
 */
const DISCONNECTED_POLL_MS = 3 * SECOND;
const POLL_MS = 60 * SECOND;
/** Minimum pause between two polls of one stream, so that a burst of changes costs one poll. */
const PAUSE_MS = 200;
/** Maximum age of a Last-Event-ID; a client with an older one starts anew. */
const OLDEST_MS = 1 * DAY;

/** State that a stream has sent to its client so far. */
interface StreamState {
  cursor: StreamCursor;
  unreadCount: number;
}

/**
 * Streams the caller's inbox: first the count of unread notifications, then each new notification and each change of that count. A
 * client that reconnects with a Last-Event-ID receives what it missed. Every count is absolute.
 */
export async function streamInbox(deps: NotificationDeps, call: Call): Promise<RawReply | Rejection> {
  const userId = callerOf(call.identity).id;
  return liveStream({
    streams: deps.streams,
    now: deps.now,
    holder: userId,
    call,
    listen: (changed) => deps.inboxChanges.listen(userId, changed),
    async begin() {
      const resumed = decodeCursor(call.headers['last-event-id'] ?? '', deps.now(), OLDEST_MS);
      const { state, isBehind } = await begin(deps, userId, resumed);
      return {
        kind: 'follow',
        follow(stream, wakeSignal) {
          const { unreadCount, cursor } = state;
          stream.send({ event: 'snapshot', data: { unreadCount }, id: encodeCursor(cursor) });
          // The first poll sends the notifications that the client missed.
          if (isBehind) wakeSignal.wake();
          return follow(deps, { userId, stream, wakeSignal }, state);
        },
      };
    },
  });
}

/**
 * Returns the starting point of a stream. A new client starts at the current state. So does a client that has missed nothing: its
 * id then names this moment, and does not expire while its inbox is quiet. A client that has missed rows (`isBehind`) starts where
 * it left off.
 */
async function begin(
  deps: NotificationDeps,
  userId: string,
  resumed: StreamCursor | null,
): Promise<{ state: StreamState; isBehind: boolean }> {
  const polledAt = deps.now();
  const from: StreamCursor = resumed ?? { polledAt, known: new Map() };
  const [unreadCount, rows] = await Promise.all([
    countUnread(deps.mongo, userId),
    recentNotifications(deps.mongo, userId, pollFrom(from)),
  ]);
  const { fresh, cursor } = advance(from, rows, polledAt);
  const isBehind = resumed !== null && fresh.length > 0;
  return { state: { unreadCount, cursor: isBehind ? from : cursor }, isBehind };
}

interface Following {
  userId: string;
  stream: LiveStream;
  wakeSignal: WakeSignal;
}

async function follow(
  deps: NotificationDeps,
  { userId, stream, wakeSignal }: Following,
  start: StreamState,
): Promise<void> {
  let state = start;
  let disconnected = false;
  // Spread the first polls: a thousand streams that opened together must not poll together.
  let pollBy = performance.now() + POLL_MS * Math.random();
  while (stream.isLive()) {
    const woken = await wakeSignal.wait(DISCONNECTED_POLL_MS);
    if (!stream.isLive()) return;
    // Wakes sent while Pub/Sub was down are lost, so poll once more after it reconnects.
    disconnected ||= !deps.inboxChanges.isConnected();
    if (!woken && !disconnected && performance.now() < pollBy) continue;
    disconnected = !deps.inboxChanges.isConnected();
    state = await sendNews(deps, userId, stream, state).catch((err: unknown) => {
      deps.log.debug({ err }, 'reading a live inbox failed; retrying');
      disconnected = true;
      return state;
    });
    pollBy = performance.now() + POLL_MS;
    await wakeSignal.pause(PAUSE_MS);
  }
}

async function sendNews(
  deps: NotificationDeps,
  userId: string,
  stream: EventStream,
  state: StreamState,
): Promise<StreamState> {
  const polledAt = deps.now();
  const [rows, unreadCount] = await Promise.all([
    recentNotifications(deps.mongo, userId, pollFrom(state.cursor)),
    countUnread(deps.mongo, userId),
  ]);
  const { fresh, cursor } = advance(state.cursor, rows, polledAt);
  const id = encodeCursor(cursor);
  // Only the last event carries the new id: a client that is disconnected in between receives the rest again.
  for (const [at, row] of fresh.entries()) {
    const last = at === fresh.length - 1;
    stream.send({ event: 'notification', data: { notification: notificationView(row) }, ...(last ? { id } : {}) });
    await stream.drained();
  }
  if (unreadCount !== state.unreadCount) stream.send({ event: 'counts', data: { unreadCount }, id });
  return { cursor, unreadCount };
}
