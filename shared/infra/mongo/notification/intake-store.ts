import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { erasedAmong } from '#infra/mongo/erased-persons.ts';
import { gatherTransactions } from '#infra/mongo/gathered-transactions.ts';
import { shareLookups } from '#infra/mongo/shared-reads.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import type { NotificationEvent, ReplayKey } from '#shared/notification/event.ts';
import type { Preferences } from '#shared/notification/preferences.ts';
import { type DeliveryJobRow, ringsOf } from './deliveries.ts';
import { findEvents, type InsertedFanOut, insertFanOut, insertTogether, jobsOf, type NewFanOut } from './fan-out.ts';
import { preferencesOf } from './preferences.ts';

/**
 * The reads and writes of the intake. Small requests of the same moment share their commands: when a whole class is graded, one transaction
 * stores 25 of its notices. Each read begins after its request has asked for it, so a request sees what it would have seen alone. A large
 * request shares nothing, so that no small one waits for it.
 */
export interface IntakeStore {
  /** Returns the event that was stored under this key before, or null. */
  findEvent(key: ReplayKey): Promise<NotificationEvent | null>;
  /** Returns the preferences of these users. A user who has set none is not in the map. */
  preferencesOf(userIds: readonly string[]): Promise<ReadonlyMap<string, Preferences>>;
  /** Returns those of these ids whose persons are erased, or are being erased. */
  erasedAmong(ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Stores an event and its rows as `insertFanOut` does. */
  insert(wanted: NewFanOut): Promise<InsertedFanOut>;
}

/** Ids that one request adds to a shared read, and rows to a shared transaction, at most. A notice has one for each parent. */
const FEW = 20;
/** Characters that one request adds to a shared transaction, at most. */
const FEW_CHARACTERS = 64 * 1_024;

interface Prepared {
  wanted: NewFanOut;
  jobs: readonly DeliveryJobRow[];
  /** Absent: an intake reads nothing in the session of its transaction. */
  session?: ClientSession;
}

/** Opens the store of a front door. */
export function openIntakeStore(mongo: Mongo): IntakeStore {
  const sharedPreferences = shareLookups(async (wanted: readonly (readonly string[])[]) => {
    const found = await preferencesOf(mongo, wanted.flat());
    return wanted.map(() => found);
  });
  const sharedErased = shareLookups(async (wanted: readonly (readonly string[])[]) => {
    const found = await erasedAmong(mongo, wanted.flat());
    return wanted.map((ids) => found.intersection(new Set(ids)));
  });
  const insert = gatherTransactions<Prepared, InsertedFanOut>(mongo, {
    budgetMs: FRONT_DOOR_BUDGET_MS,
    alone: ({ wanted, jobs }) => insertFanOut(mongo, wanted, jobs),
    async together(group, session) {
      await insertTogether(mongo, group, session);
      return group.map(({ jobs }) => ({ kind: 'made', ring: ringsOf(jobs) }));
    },
  });
  return {
    findEvent: shareLookups((keys: readonly ReplayKey[]) => findEvents(mongo, keys)),
    preferencesOf: (ids) => (ids.length > FEW ? preferencesOf(mongo, ids) : sharedPreferences(ids)),
    erasedAmong: (ids) => (ids.length > FEW ? erasedAmong(mongo, ids) : sharedErased(ids)),
    // The jobs name the request that causes them, so they are made in its scope.
    insert: (wanted) => (isSmall(wanted) ? insert({ wanted, jobs: jobsOf(wanted) }) : insertFanOut(mongo, wanted)),
  };
}

function isSmall({ rows, event }: NewFanOut): boolean {
  if (rows.length > FEW || (event?.targetUserIds?.length ?? 0) > FEW) return false;
  const texts = rows.map(({ title, content, data }) => title.length + content.length + (data?.length ?? 0));
  return texts.reduce((sum, length) => sum + length, event?.payload?.length ?? 0) <= FEW_CHARACTERS;
}
