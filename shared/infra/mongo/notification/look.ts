import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { LOOK_MS } from '#shared/notification/fan-out.ts';
import type { Place } from '#shared/notification/notification.ts';
import { fanOuts } from './collections.ts';

/** What a reader filters `place` by. */
export type PlaceFilter = 'INBOX' | { $in: string[] };

/**
 * Of every command that reads rows in more than one place: all of it as one instant. Another read lets writers in between its
 * steps, and would meet a row that moves to its inbox just then twice, or not at all.
 */
export const LOOK_OPTIONS = { readConcern: { level: 'snapshot' }, maxTimeMS: QUERY_LIMIT_MS } as const;

const ROUNDS = 3;

/**
 * Reads rows as one instant would show them: of every fan-out all rows or none. `read` may be called twice: once while the
 * published fan-outs are being looked for, which is nearly always in vain, and again with those that were found.
 *
 * Rows move to `INBOX` no sooner than REST_MS after their fan-out was published, and it stays findable for REST_MS after the last
 * one moved (`shared/notification/fan-out.ts`). So two looks that lie less than that apart, in either order, agree about every row that could
 * be on the move. A process that was paused in between looks again.
 */
export async function look<Result>(mongo: Mongo, read: (place: PlaceFilter) => Promise<Result>): Promise<Result> {
  for (let round = 1; ; round++) {
    const began = performance.now();
    const [published, settled] = await Promise.all([publishedFanOuts(mongo), read('INBOX')]);
    const result = published.length === 0 ? settled : await read({ $in: ['INBOX', ...published] });
    if (performance.now() - began < LOOK_MS) return result;
    if (round === ROUNDS) throw new Error('looks at an inbox took too long to belong together');
  }
}

/** The same for a write over many rows, which must know first. */
export async function visiblePlace(mongo: Mongo): Promise<PlaceFilter> {
  const published = await publishedFanOuts(mongo);
  return published.length === 0 ? 'INBOX' : { $in: ['INBOX', ...published] };
}

/** Whether anybody may see a row that was found by its id. */
export async function isVisible(mongo: Mongo, { place }: { place: Place }): Promise<boolean> {
  if (place === 'INBOX') return true;
  if (place === 'DELETED') return false;
  const fanOut = await fanOuts(mongo).findOne({ _id: place }, { projection: { state: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return fanOut?.state === 'PUBLISHED';
}

async function publishedFanOuts(mongo: Mongo): Promise<string[]> {
  const found = await fanOuts(mongo)
    .find({ state: 'PUBLISHED' }, { projection: { _id: 1 }, hint: 'by_state', maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  return found.map(({ _id }) => _id);
}
