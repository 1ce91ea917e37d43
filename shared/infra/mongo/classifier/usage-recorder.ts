import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '#infra/log/log.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isOutage, refusedRows } from '#infra/mongo/faults.ts';
import { settlesWithin } from '#infra/process/background.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { newId } from '#shared/kernel/ids.ts';
import { backoff, SECOND } from '#shared/kernel/time.ts';
import { usageEvents } from './collections.ts';

/** Stores one usage event for each provider call in the background, without delaying the call. */
interface UsageRecorder {
  /** Returns at once and never throws. If too many events are waiting, the event is lost and counted in a warning. */
  record(event: UsageEvent): void;
  /** Waits at most `limitMs` for the waiting events to be stored. */
  close(limitMs: number): Promise<void>;
}

type StoredEvent = UsageEvent & { _id: string };

/** Events that may wait to be stored. They are small and contain no prompt. */
const MAX_WAITING = 2_000;
/** Wait after a failed write (ms). */
const RETRY = { baseMs: SECOND, capMs: 30 * SECOND };

/**
 * Opens a recorder of usage events. Events that end during a write are stored together by the next one.
 *
 * While MongoDB fails, events wait and are written again under the same ids, so that each is stored once. They are lost if more than
 * MAX_WAITING wait, if MongoDB refuses the event itself, or if the process ends first. The charge of a generation does not depend on them.
 */
export function openUsageRecorder(
  mongo: Mongo,
  log: Pick<Log, 'warn'>,
  { retry = RETRY }: { retry?: Parameters<typeof waitAfter>[0] } = {},
): UsageRecorder {
  let waiting: StoredEvent[] = [];
  /** Events of the write that runs. */
  let storing: StoredEvent[] = [];
  let writing: Promise<void> | null = null;
  const closing = new AbortController();

  function drop(count: number): void {
    log.warn({ count }, 'usage events dropped: queue full or process stopping');
  }

  async function storeWaiting(): Promise<void> {
    for (let failures = 0; waiting.length > 0; ) {
      storing = waiting;
      waiting = [];
      const left = await storeAll(storing);
      storing = [];
      failures = left.length === 0 ? 0 : failures + 1;
      waiting = [...left, ...waiting];
      // A process that ends writes once more, at once.
      if (failures > 1 && closing.signal.aborted) break;
      if (failures > 0)
        await delay(waitAfter(retry, failures), undefined, { ref: false, signal: closing.signal }).catch(
          () => undefined,
        );
    }
    writing = null;
  }

  /** Stores the events, and returns those that the next write has to store. */
  async function storeAll(storing: readonly StoredEvent[]): Promise<readonly StoredEvent[]> {
    try {
      await usageEvents(mongo).insertMany([...storing], { ordered: false, maxTimeMS: QUERY_LIMIT_MS });
      return [];
    } catch (err) {
      const refused = refusedRows(err);
      if (refused === null && isOutage(err)) {
        log.warn({ err, count: storing.length }, 'storing usage events failed; retry scheduled');
        return storing;
      }
      if (refused === null && storing.length > 1) return storeEach(storing);
      const count = refused?.length ?? storing.length;
      if (count > 0) log.warn({ err, count }, 'usage events refused by MongoDB; events dropped');
      return [];
    }
  }

  /** Stores each event by itself, so that a faulty one takes no other with it. */
  async function storeEach(storing: readonly StoredEvent[]): Promise<readonly StoredEvent[]> {
    const left: StoredEvent[] = [];
    for (const one of storing) left.push(...(await storeAll([one])));
    return left;
  }

  return {
    record(event) {
      if (waiting.length + storing.length >= MAX_WAITING || closing.signal.aborted) return drop(1);
      waiting.push({ _id: newId(event.createdAt.getTime()), ...event });
      // A write that runs continues with the events that wait by its end.
      writing ??= Promise.resolve().then(storeWaiting);
    },
    async close(limitMs) {
      closing.abort();
      if (writing !== null) await settlesWithin(writing, limitMs);
      // The end of a write that still runs is not awaited.
      const unstored = waiting.length + storing.length;
      if (unstored > 0) drop(unstored);
      waiting = [];
    },
  };
}

function waitAfter(retry: { baseMs: number; capMs: number }, attempt: number): number {
  return backoff({ ...retry, attempt, random: Math.random() });
}
