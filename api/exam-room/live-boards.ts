import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Watched, type WatchedFacts, watchedRows } from '#infra/mongo/exam-room/board.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import {
  addToSummary,
  type BoardSummary,
  boardRow,
  emptySummary,
  type FlagFacts,
  flagsOf,
} from '#shared/exam-room/board.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

/** Time between two readings of a board that is watched. */
const READ_EVERY_MS = 1 * SECOND;
/** A reading of a huge exam that takes long leaves MongoDB this many times as long to others. */
const REST = 4;
/** Time for which a write may be invisible after the time that it stores. */
const OVERLAP_MS = 3 * SECOND;
/** Every attempt is read again after this time, in case a write was invisible for longer. */
const ALL_EVERY_MS = 60 * SECOND;
/** Rows that one reading fetches because their flags have changed as time passed. */
const MAX_TURNED = 2_000;

/** The teachers who see an attempt. Most exams have one scope, so rows and counts are kept by scope. */
type Scope = Pick<Attempt, 'scope'>;

/** A reading: the rows that have changed since the one before, and the counts of each scope. */
export interface Reading {
  rows: readonly { id: string; scope: Scope; text: string }[];
  summaries: readonly { scope: Scope; summary: BoardSummary }[];
}

/** The boards that streams of this process watch. All streams of an exam share one reader. */
export interface LiveBoards {
  /** Calls `read` after each reading, the newest one at once if there is one. Returns a function that stops this. */
  watch(examId: string, read: (reading: Reading) => void): () => void;
  /** Number of exams that are read. */
  watched(): number;
}

/** Opens the readers of a process. An exam is read as long as a stream watches it. */
export function openLiveBoards(mongo: Mongo, now: Now, log: Pick<Log, 'debug'>): LiveBoards {
  const readers = new Map<string, ReturnType<typeof openReader>>();

  function openReader(examId: string) {
    const listeners = new Set<(reading: Reading) => void>();
    const board = openBoard(mongo, examId);
    let newest: Reading | null = null;
    let timer: NodeJS.Timeout | undefined;

    async function read(): Promise<void> {
      const began = performance.now();
      try {
        const reading = await board(new Date(now()));
        newest = { ...reading, rows: [] };
        for (const listener of listeners) listener(reading);
      } catch (err) {
        log.debug({ err }, 'reading a watched board failed; retrying');
      }
      if (listeners.size === 0) return;
      const tookMs = performance.now() - began;
      timer = setTimeout(read, Math.max(READ_EVERY_MS - tookMs, REST * tookMs));
    }

    return { listeners, newest: () => newest, start: () => void read(), stop: () => clearTimeout(timer) };
  }

  return {
    watched: () => readers.size,
    watch(examId, listener) {
      const reader = readers.get(examId) ?? openReader(examId);
      const isNew = reader.listeners.size === 0;
      reader.listeners.add(listener);
      if (isNew) {
        readers.set(examId, reader);
        reader.start();
      }
      const known = reader.newest();
      if (known !== null) listener(known);
      return () => {
        reader.listeners.delete(listener);
        if (reader.listeners.size > 0 || readers.get(examId) !== reader) return;
        reader.stop();
        readers.delete(examId);
      };
    },
  };
}

/** An attempt as it was last read: what decides its flags, which change as time passes, without its row. */
interface Known {
  stamp: string;
  facts: FlagFacts;
  flags: string;
  scope: Scope;
}

/**
 * Opens the memory of one board. Its function reads what was written since the reading before: the first reading reads every attempt, and
 * none of them has changed. It returns the rows of those that were written or whose flags have changed.
 */
function openBoard(mongo: Mongo, examId: string): (now: Date) => Promise<Reading> {
  const known = new Map<string, Known>();
  const scopes = new Map<string, Scope>();
  /** Rows of a reading that failed before its end are those of the next one as well. */
  let rows = new Map<string, Reading['rows'][number]>();
  let readAt: number | null = null;
  let allAt = 0;

  function scopeOf({ scope }: WatchedFacts): Scope {
    const key = JSON.stringify([scope.createdById, scope.resultViewerTeacherIds]);
    const same = scopes.get(key) ?? { scope };
    scopes.set(key, same);
    return same;
  }

  /** Reads attempts, remembers them, and puts the rows of those that have changed into `rows`. Returns the ids that it has met. */
  async function take(watched: Watched, now: Date): Promise<Set<string>> {
    const met = new Set<string>();
    for await (const facts of watchedRows(mongo, watched)) {
      const { _id: id, stamp, status, startedAt, deadlineAt, lastSeenAt, away, voidedAt } = facts;
      const flags = flagsOf(facts, now).join();
      const before = known.get(id);
      const scope = scopeOf(facts);
      met.add(id);
      if (before?.stamp === stamp && before.flags === flags) continue;
      const kept = { status, startedAt, deadlineAt, lastSeenAt, away, voidedAt } as FlagFacts;
      known.set(id, { stamp, flags, scope, facts: kept });
      rows.set(id, { id, scope, text: JSON.stringify(boardRow(facts, now)) });
    }
    return met;
  }

  return async (now) => {
    const isFirst = readAt === null;
    const isWhole = isFirst || now.getTime() - allAt >= ALL_EVERY_MS;
    const since = new Date((readAt ?? 0) - OVERLAP_MS);
    const met = await take(isWhole ? { kind: 'all', examId } : { kind: 'since', examId, time: since }, now);
    if (isWhole) {
      for (const id of known.keys()) if (!met.has(id)) known.delete(id);
      allAt = now.getTime();
    }

    const turned = [...known].flatMap(([id, { facts, flags }]) => (flagsOf(facts, now).join() === flags ? [] : [id]));
    const ids = turned.slice(0, MAX_TURNED);
    if (ids.length > 0) await take({ kind: 'some', examId, ids }, now);
    const changed = isFirst ? [] : [...rows.values()];
    rows = new Map();
    readAt = now.getTime();
    return { rows: changed, summaries: summariesOf(known.values(), now) };
  };
}

function summariesOf(known: Iterable<Known>, now: Date): Reading['summaries'] {
  const byScope = new Map<Scope, BoardSummary>();
  for (const { scope, facts } of known) {
    const summary = byScope.get(scope) ?? emptySummary();
    byScope.set(scope, summary);
    addToSummary(summary, facts, flagsOf(facts, now));
  }
  return [...byScope].map(([scope, summary]) => ({ scope, summary }));
}
