import type { Measure, Row } from '#scripts/bench/measure.ts';
import { costOf, type FilledPlace, type Meter, processorMs } from '#testing/fillings/cost.ts';
import { fillingsOf } from '#testing/fillings/fillings.ts';
import { type Hall, openHall } from '#testing/fillings/hall.ts';
import { type Place, permittedMs } from '#testing/fillings/places.ts';

/** Places in the report. A filling is listed only after several calls: in one call alone, the collector of garbage lengthens a stretch. */
const LISTED = 10;
const TIMES = 5;
/** A quick run sends one filling in so many. */
const QUICK = 20;

/** The stretches (ms) of each filling: the longest of each call. */
type Stretches = Map<FilledPlace, number[]>;

/**
 * Measures how long the event loop of a front door and of its workers does nothing else for one request. It sends the largest value of
 * every string, array and object of every body, in every filling.
 */
export const measureStretches: Measure = async ({ mongodbUrl, redisUrl, progress, quick }) => {
  const teardowns: (() => unknown)[] = [];
  const until = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
  try {
    const hall = await openHall(until, { env: { MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl } });
    const all = everyFilling(hall).filter((_, index) => !quick || index % QUICK === 0);
    const stretches: Stretches = new Map();
    for (const [done, filled] of all.entries()) {
      await measure(hall, filled, stretches);
      progress.reach(done + 1, all.length);
    }
    for (;;) {
      const once = longest(stretches)
        .slice(0, LISTED)
        .filter((filled) => stretches.get(filled)?.length !== TIMES);
      if (once.length === 0) break;
      for (const filled of once) await measure(hall, filled, stretches);
    }
    return longest(stretches)
      .slice(0, LISTED)
      .map((filled, index) => rowOf(filled, stretches.get(filled) ?? [], index === 0 ? notesOn(all) : []));
  } finally {
    for (const work of teardowns) await work();
  }
};

function everyFilling(hall: Hall): FilledPlace[] {
  return hall.operations.flatMap((operation) =>
    operation.places.flatMap((place) => {
      const fillings = new Set(fillingsOf(place).flatMap(({ harmless, hostile }) => [harmless, hostile]));
      return [...fillings].map((filling) => ({ operation, place, filling }));
    }),
  );
}

async function measure(hall: Hall, filled: FilledPlace, stretches: Stretches): Promise<void> {
  const { door, workers } = await costOf(hall, filled, stretchMeter());
  stretches.set(filled, [...(stretches.get(filled) ?? []), Math.max(door, workers)]);
}

/** Returns the filling of each place that takes longest, the longest first. */
function longest(stretches: Stretches): FilledPlace[] {
  const shortestOf = (filled: FilledPlace) => Math.min(...(stretches.get(filled) ?? []));
  const seen = new Set<Place>();
  return [...stretches.keys()]
    .sort((one, other) => shortestOf(other) - shortestOf(one))
    .filter(({ place }) => !seen.has(place) && seen.add(place));
}

function notesOn(all: readonly FilledPlace[]): string[] {
  const places = new Set(all.map(({ place }) => place)).size;
  return [
    `the longest ${LISTED} of ${places} places, each with the filling that took longest; ${all.length} bodies were sent`,
    `the first figure is the shortest of ${TIMES} calls, the second the longest: processor time of one thread, which the caller shares`,
  ];
}

function rowOf({ operation, place, filling }: FilledPlace, times: readonly number[], notes: string[]): Row {
  const aim = permittedMs(operation);
  return {
    name: `${operation.id} ${place.name}, ${filling?.name}`,
    unit: 'ms',
    ours: { p50: Math.min(...times), p99: Math.max(...times) },
    reference: { p50: aim, p99: aim },
    against: operation.isOfServices ? 'for services' : 'its aim',
    aim: { side: 'most', ratio: 1 },
    notes,
  };
}

/** Measures the longest stretch in which the event loop did nothing else, in processor time of this thread. */
function stretchMeter(): Meter {
  let [longest, from, isOn] = [0, 0, false];
  function pass(): void {
    const now = processorMs();
    longest = Math.max(longest, now - from);
    from = now;
    if (isOn) setImmediate(pass);
  }
  return {
    begin() {
      [longest, from, isOn] = [0, processorMs(), true];
      setImmediate(pass);
    },
    lap() {
      const found = longest;
      longest = 0;
      return found;
    },
    end() {
      isOn = false;
    },
  };
}
