import { MongoError, MongoNetworkError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import type { PassedProbe } from '#infra/mongo/schema-state.ts';
import { settlesWithin, withTimeout } from '#infra/process/background.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Behaviour, openScratch, type Scratch } from './scratch.ts';
import { readServer, SERVER, type Server } from './server.ts';
import { TRANSACTIONS } from './transactions.ts';
import { UNIQUE_KEYS } from './unique-keys.ts';
import { TIMES, UPDATES } from './updates.ts';

/** The behaviours on which the promises of the product rest, and which some servers lack. */
export const BEHAVIOURS: readonly Behaviour[] = [...SERVER, ...UNIQUE_KEYS, ...TIMES, ...UPDATES, ...TRANSACTIONS];

export interface Finding {
  name: string;
  breaks: string;
  /** The actual behaviour of the server, or null if the required behaviour holds. */
  fault: string | null;
}

export interface ProbeReport {
  server: Server;
  findings: Finding[];
}

/** Thrown for a server that lacks a required behaviour. The message is for an operator. */
export class UnfitServer extends Error {
  constructor({ server, findings }: ProbeReport) {
    const faults = findings.filter(({ fault }) => fault !== null);
    const lines = [
      `this server (it reports MongoDB ${server.version}, ${server.topology}) lacks ${faults.length} of ${findings.length} behaviours that examhall relies on`,
      ...faults.map(({ name, fault, breaks }) => `  ${name}: ${fault}. ${breaks}`),
      'Nothing was changed. Point MONGODB_URL to MongoDB 7.0 or later, a replica set or sharded cluster (docs/operating.md, "Which MongoDB")',
    ];
    super(lines.join('\n'));
    this.name = 'UnfitServer';
  }
}

/** Default time limit of one behaviour. */
const LIMIT_MS = 10 * SECOND;

/**
 * Tests every behaviour on new collections, which it drops at the end. A behaviour that takes longer than `limitMs` counts as missing.
 *
 * @throws the outage if the server is unavailable; the behaviours are then unknown
 */
export async function probe(mongo: Mongo, { limitMs = LIMIT_MS } = {}): Promise<ProbeReport> {
  const server = await inTime(readServer(mongo), limitMs);
  const scratch = await inTime(openScratch(mongo, server.now), limitMs);
  try {
    const findings: Finding[] = [];
    for (const behaviour of BEHAVIOURS) {
      const { name, breaks } = behaviour;
      findings.push({ name, breaks, fault: await faultOf(behaviour, scratch, limitMs) });
      if (findings.at(-1)?.fault === NO_ANSWER) await inTime(mongo.db.command({ ping: 1 }), limitMs);
    }
    return { server, findings };
  } finally {
    await settlesWithin(scratch.drop(), limitMs);
  }
}

const NO_ANSWER = 'the server does not answer in time';

/** Tests a behaviour. After an outage, which may be an election, it tests once more. */
async function faultOf(behaviour: Behaviour, scratch: Scratch, limitMs: number): Promise<string | null> {
  try {
    return await runTrial(behaviour, scratch, limitMs);
  } catch (error) {
    if (!isOutage(error)) throw error;
    return runTrial(behaviour, scratch, limitMs);
  }
}

async function runTrial(behaviour: Behaviour, scratch: Scratch, limitMs: number): Promise<string | null> {
  const trial = scratch.beginTrial(behaviour.name);
  try {
    const fault = await withTimeout(behaviour.fault(trial), limitMs, () => new Late());
    return fault ?? null;
  } catch (error) {
    if (error instanceof Late) return NO_ANSWER;
    // The server, or the driver for it, refused a command that the behaviour requires.
    if (error instanceof MongoError && !isOutage(error)) return `it is refused with "${error.message}"`;
    throw error;
  } finally {
    await trial.end();
  }
}

class Late extends Error {}

/** Limits the time of a command that every server has. If even this one is not answered, the server is unavailable. */
function inTime<Result>(work: Promise<Result>, limitMs: number): Promise<Result> {
  return withTimeout(work, limitMs, () => new MongoNetworkError(`no answer within ${limitMs} ms`));
}

/**
 * Probes the server, unless `passed` contains its build and every current behaviour. Returns the result to store for the next time.
 *
 * @throws UnfitServer if a behaviour is missing
 */
export async function proveServer(
  mongo: Mongo,
  passed: PassedProbe | undefined,
  report: (line: string) => void,
): Promise<PassedProbe> {
  const { build, version, topology } = await inTime(readServer(mongo), LIMIT_MS);
  const behaviours = BEHAVIOURS.map(({ name }) => name);
  if (passed?.build === build && behaviours.every((name) => passed.behaviours.includes(name))) return passed;
  report(`probing the server: MongoDB ${version}, ${topology}`);
  const found = await probe(mongo);
  if (found.findings.some(({ fault }) => fault !== null)) throw new UnfitServer(found);
  return { build: found.server.build, behaviours };
}
