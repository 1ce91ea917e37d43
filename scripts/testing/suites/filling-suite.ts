import type { Test } from 'tap';
import { type Cost, costOf, processorMeter } from '#scripts/fillings/cost.ts';
import { type Filling, fillingsOf, type Pair } from '#scripts/fillings/fillings.ts';
import { type Hall, openHall } from '#scripts/fillings/hall.ts';
import type { BodyOperation, Place } from '#scripts/fillings/places.ts';

/** A hostile filling may cost this many times as much processor time as a harmless one of the same size. */
const MOST = 5;
/** Shorter times (ms) are counted as this one: Linux adds the time of a running thread at each tick of 250 Hz. */
const TICK_MS = 4;
/** Calls of each filling, of which the cheapest counts. A pair within the limit needs no second call. */
const CALLS = 4;

/** Operations whose example names an object that only an operator's work makes. */
const WITHOUT_OBJECT: readonly string[] = ['stopBulkAct'];

/** The test files among which the operations are divided. Each operation belongs to one; a new one belongs to `others`. */
type Part = 'starts' | 'fan-outs' | 'deliveries' | 'others';

function partOf({ path }: BodyOperation): Part {
  if (path.startsWith('/v1/exams/')) return 'starts';
  if (path === '/v1/notifications') return 'deliveries';
  return /^\/v1\/(notifications\/batch|events\/(notification|weak-topic))/.test(path) ? 'fan-outs' : 'others';
}

/**
 * Sends every filling of every place of these operations to a front door. Compares the processor time of front door and workers with that
 * for a harmless filling.
 */
export function fillingSuite(t: Test, part: Part): void {
  t.setTimeout(0);
  t.test(`no filling of a body costs much more than letters: ${part}`, async (t) => {
    t.setTimeout(0);
    const hall = await openHall(t, { delivers: part === 'deliveries' });
    const tested = hall.operations.filter((operation) => partOf(operation) === part);
    t.ok(tested.length > 0);
    for (const operation of tested) {
      await t.test(`${operation.id}: ${operation.places.length} places`, (t) => testOperation(t, hall, operation));
    }
  });
}

async function testOperation(t: Test, hall: Hall, operation: BodyOperation): Promise<void> {
  const [root] = operation.places;
  if (root === undefined) throw new Error(`${operation.id}: the document names no place of its body`);
  if (operation.places.length > 1 && !WITHOUT_OBJECT.includes(operation.id)) {
    const plain = await costOf(hall, { operation, place: root, filling: null }, processorMeter());
    t.ok(plain.status < 300, `a body without a filling is accepted: ${plain.status} ${plain.text}`);
  }
  const dear: string[] = [];
  for (const place of operation.places) {
    const calls = openCalls(hall, operation, place);
    for (const pair of fillingsOf(place)) {
      const found = await excess(calls, pair);
      if (found !== undefined) dear.push(`${place.name} of ${pair.hostile.name}: ${found}`);
    }
  }
  t.strictSame(dear, []);
}

/** The costs of the fillings of one place so far: the cheapest of all calls. */
interface Calls {
  costs: Map<Filling, Pick<Cost, 'door' | 'workers'>>;
  send(filling: Filling): Promise<void>;
}

function openCalls(hall: Hall, operation: BodyOperation, place: Place): Calls {
  const costs: Calls['costs'] = new Map();
  return {
    costs,
    async send(filling) {
      const { door, workers } = await costOf(hall, { operation, place, filling }, processorMeter());
      const best = costs.get(filling) ?? { door, workers };
      costs.set(filling, { door: Math.min(door, best.door), workers: Math.min(workers, best.workers) });
    },
  };
}

/** Returns how much a hostile filling costs above the limit, or undefined. */
async function excess(calls: Calls, { harmless, hostile }: Pair): Promise<string | undefined> {
  if (!calls.costs.has(harmless)) await calls.send(harmless);
  for (let call = 1; ; call += 1) {
    await calls.send(hostile);
    const [usual, cost] = [calls.costs.get(harmless), calls.costs.get(hostile)];
    const over = (['door', 'workers'] as const).find(
      (where) => (cost?.[where] ?? 0) > MOST * Math.max(TICK_MS, usual?.[where] ?? 0),
    );
    if (over === undefined) return undefined;
    if (call === CALLS) return `${over} ${cost?.[over].toFixed(0)} ms, ${harmless.name} ${usual?.[over].toFixed(0)} ms`;
    await calls.send(harmless);
  }
}
