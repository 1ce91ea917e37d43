import t, { type Test } from 'tap';
import { costOf, processorMeter } from '#testing/fillings/cost.ts';
import { type Filling, fillingsOf, type Pair } from '#testing/fillings/fillings.ts';
import { type Hall, openHall } from '#testing/fillings/hall.ts';
import { type BodyOperation, type Place, permittedMs } from '#testing/fillings/places.ts';

/**
 * Size of a filled body at most. Work that grows with the square of a text exceeds the permitted stretch here: the sort of a run of marks
 * takes half a second. Larger bodies would lengthen the honest work alone; `npm run bench -- stretches` sends those.
 */
const MAX_BYTES = 64 * 1_024;
/** A hostile filling may cost this many times as much processor time as a harmless one of the same size. */
const MOST = 5;
/** Calls of each filling of a suspected pair, of which the cheapest counts: the collector of garbage disturbs some. */
const CALLS = 4;
/** The parts of a call whose costs are compared. */
const PARTS = ['door', 'workers'] as const;
/** Operations whose example names an object that only an operator's work makes. */
const WITHOUT_OBJECT: readonly string[] = ['stopBulkAct'];

t.setTimeout(0);

for (const delivers of [false, true]) {
  // Only single notifications are delivered over every channel. For a list of thousands, the channels would take minutes.
  const isTested = ({ path }: BodyOperation) => (path === '/v1/notifications') === delivers;
  const which = delivers ? 'of a notification that channels deliver' : 'of a body';
  t.test(`no hostile filling ${which} costs much more than a harmless one of the same size`, async (t) => {
    t.setTimeout(0);
    const hall = await openHall(t, { delivers });
    const tested = hall.operations.filter(isTested);
    t.ok(tested.length > 0);
    for (const operation of tested) {
      const short = { ...operation, maxBytes: Math.min(operation.maxBytes, MAX_BYTES) };
      await t.test(`${operation.id}: ${operation.places.length} places`, (t) => testOperation(t, hall, short));
    }
  });
}

async function testOperation(t: Test, hall: Hall, operation: BodyOperation): Promise<void> {
  t.setTimeout(0);
  const [root] = operation.places;
  if (root === undefined) throw new Error(`${operation.id}: the document names no place of its body`);
  if (operation.places.length > 1 && !WITHOUT_OBJECT.includes(operation.id)) {
    const plain = await costOf(hall, { operation, place: root, filling: null }, processorMeter());
    t.ok(plain.status < 300, `a body without a filling is accepted: ${plain.status} ${plain.text}`);
  }
  const faults: string[] = [];
  for (const place of operation.places) {
    for (const pair of fillingsOf(place)) faults.push(...(await faultsOf(hall, operation, place, pair)));
  }
  t.strictSame(faults, []);
}

/** Returns what a hostile filling costs too much of: above the permitted stretch, and MOST times the cost of the harmless one. */
async function faultsOf(hall: Hall, operation: BodyOperation, place: Place, pair: Pair): Promise<string[]> {
  const [hostile, harmless] = [openCheapest(), openCheapest()];
  for (let call = 1; ; call += 1) {
    await hostile.send(pair.hostile);
    const over = PARTS.filter((part) => hostile.costs[part] > permittedMs(operation));
    if (over.length === 0) return [];
    await harmless.send(pair.harmless);
    const faults = over.filter((part) => hostile.costs[part] > MOST * harmless.costs[part]);
    if (faults.length === 0 || call === CALLS) return faults.map(textOf);
  }

  function openCheapest() {
    const costs = { door: Number.POSITIVE_INFINITY, workers: Number.POSITIVE_INFINITY };
    async function send(filling: Filling): Promise<void> {
      const cost = await costOf(hall, { operation, place, filling }, processorMeter());
      for (const part of PARTS) costs[part] = Math.min(costs[part], cost[part]);
    }
    return { costs, send };
  }

  function textOf(part: (typeof PARTS)[number]): string {
    const [cost, usual] = [hostile.costs[part], harmless.costs[part]].map((ms) => `${ms.toFixed(0)} ms`);
    return `${place.name}, ${part}: ${pair.hostile.name} ${cost}, ${pair.harmless.name} ${usual}`;
  }
}
