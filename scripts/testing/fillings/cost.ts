import { Agent } from 'node:http';
import { send } from '#testing/clients/call.ts';
import { type Filling, sampleOf } from './fillings.ts';
import type { Hall } from './hall.ts';
import type { BodyOperation, Place } from './places.ts';

/** Measures the event loop of this process. */
export interface Meter {
  begin(): void;
  /** Returns the measure (ms) since `begin` or the last `lap`. */
  lap(): number;
  end(): void;
}

/** One place of an operation, and how it is filled; null sends the body as it is. */
export interface FilledPlace {
  operation: BodyOperation;
  place: Place;
  filling: Filling | null;
}

const agent = new Agent({ keepAlive: true });
let calls = 0;

/**
 * Sends one body and lets the workers finish. Returns status and text of the reply, and the measures until the reply and from it until no
 * worker has anything to do.
 */
export async function costOf(hall: Hall, { operation, place, filling }: FilledPlace, meter: Meter) {
  const n = 100_000 + calls++;
  const { target, headers, body, afterwards } = await hall.prepare(operation, place, n);
  const bytes = filling === null ? JSON.stringify(body) : filledBody(body, { operation, place, filling }, n);
  const typed = { ...headers, 'content-type': 'application/json' };
  await hall.idle();
  meter.begin();
  const reply = await send(hall.url, { method: operation.method, target, headers: typed, body: bytes, agent });
  const door = meter.lap();
  await afterwards?.();
  await hall.idle();
  const workers = meter.lap();
  meter.end();
  return { status: reply.status, text: reply.body.toString('utf8', 0, 300), door, workers };
}

type Json = Record<string, unknown>;

/** Marks the filled place until the JSON of the body is written. */
const MARK = '\ue000place\ue000';

/** Returns the JSON of a body that is valid but for what fills the place, at most as long as the operation admits. */
function filledBody(
  base: unknown,
  { operation, place, filling }: FilledPlace & { filling: Filling },
  n: number,
): Buffer {
  const { body, sample } = marked(structuredClone(base), place);
  const [before = '', after = ''] = JSON.stringify(body).split(JSON.stringify(MARK));
  // A record keeps its own members. Its filling is members that its schema does not name.
  const known = place.kind === 'record' ? JSON.stringify(sample).slice(1, -1) : '';
  const room = operation.maxBytes - Buffer.byteLength(before + after + known) - 1;
  const written = filling.write(place, sample, room, n);
  return Buffer.from(before + (known === '' ? written : `{${known},${written.slice(1)}`) + after);
}

/** Puts the mark where the place is, and makes what the base lacks above it. Returns the value that was there. */
function marked(base: unknown, { steps, node, above }: Place): { body: unknown; sample: unknown } {
  const root: Json = { body: base };
  let [at, name] = [root, 'body'];
  for (const [depth, step] of steps.entries()) {
    const container = at[name] ?? sampleOf(above[depth] ?? {});
    at[name] = container;
    [at, name] = [container as Json, step === '*' ? '0' : step];
  }
  const sample = at[name] ?? sampleOf(node);
  at[name] = MARK;
  return { body: root.body, sample };
}

/** Measures the processor time of this thread. The time of other programs does not count. */
export function processorMeter(): Meter {
  let from = 0;
  const lap = () => {
    const before = from;
    from = processorMs();
    return from - before;
  };
  return { begin: () => void lap(), lap, end: () => undefined };
}

export function processorMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
