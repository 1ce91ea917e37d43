import type { CommandStartedEvent, Document } from 'mongodb';
import type { Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { INDEXES } from '#infra/mongo/schema/indexes.ts';

/** One read or write of the product, as the driver sent it. */
interface SeenFilter {
  collection: string;
  /** Everything that a plan depends on: command, fields and order. */
  shape: string;
  /** The same selection as a command that any server explains. */
  explainable: Document;
  /** True if the filter selects by `_id`, by equality or $in. */
  isPointRead: boolean;
}

/** Records every filter that passes through this client. Call it before the client's first connection. */
export function watchFilters(mongo: Mongo): { seen: Map<string, SeenFilter> } {
  const seen = new Map<string, SeenFilter>();
  watchCommands(mongo, ({ commandName, command }) => {
    for (const found of filtersOf(commandName, command)) seen.set(found.shape, found);
  });
  return { seen };
}

/**
 * Records the commands that pass through this client. Call it before the client's first connection. `nameOf` names a command; default: its
 * own name. `taken` returns the commands since its last call, in order.
 */
export function countCommands(
  mongo: Mongo,
  nameOf: (event: CommandStartedEvent) => string = ({ commandName }) => commandName,
): { taken(): string[] } {
  const names: string[] = [];
  watchCommands(mongo, (event) => names.push(nameOf(event)));
  return { taken: () => names.splice(0) };
}

function watchCommands({ client }: Mongo, on: (event: CommandStartedEvent) => void): void {
  client.options.monitorCommands = true;
  client.on('commandStarted', on);
}

function filtersOf(name: string, command: Document): SeenFilter[] {
  const collection = String(command[name]);
  const hint = command.hint === undefined ? {} : { hint: command.hint };
  const asFind = (filter: Document, sort: Document = {}, limit = 0) => ({
    collection,
    isPointRead: pinsId(filter),
    shape: JSON.stringify([name, collection, shapeOf(filter), sort, hint]),
    explainable: { find: collection, filter, sort, ...hint, ...(limit > 0 ? { limit } : {}) },
  });
  if (name === 'find') {
    return branchesOf(command.filter ?? {}).map((branch) => asFind(branch, command.sort, command.limit));
  }
  if (name === 'findAndModify') return [asFind(command.query, command.sort)];
  if (name === 'update') return command.updates.map((update: Document) => asFind(update.q));
  if (name === 'delete') return command.deletes.map((one: Document) => asFind(one.q));
  if (name !== 'aggregate' || typeof command.aggregate !== 'string') return [];
  const { pipeline } = command;
  const explainable = { aggregate: collection, pipeline, cursor: {}, ...hint };
  const filter: Document = pipeline[0]?.$match ?? {};
  const unions: Document[] = pipeline.flatMap(({ $unionWith = [] }: Document) => $unionWith);
  return [
    { collection, explainable, isPointRead: pinsId(filter), shape: JSON.stringify([name, collection, pipeline, hint]) },
    ...unions.flatMap(({ coll, pipeline }) => filtersOf(name, { aggregate: coll, pipeline })),
  ];
}

/**
 * Returns the branches of a filter that is one `$or`; otherwise the filter. MongoDB plans each branch by itself. The stand-in in Rust explains
 * such a filter as a scan, although it runs each branch from its index.
 */
function branchesOf(filter: Document): Document[] {
  return Object.keys(filter).join() === '$or' ? filter.$or : [filter];
}

function pinsId({ _id }: Document): boolean {
  if (_id === undefined || _id === null) return false;
  return typeof _id !== 'object' || Object.keys(_id).every((operator) => operator === '$in' || operator === '$eq');
}

/** Returns fields and operators of a filter without their values. */
function shapeOf(filter: Document): unknown {
  return Object.entries(filter).map(([field, value]) =>
    typeof value === 'object' && value !== null && !(value instanceof Date)
      ? [field, Object.keys(value).sort()]
      : field,
  );
}

/** Returns the stages of the plan that the server would run, outermost first, with the index of each index scan. */
export async function planOf(mongo: Mongo, seen: SeenFilter): Promise<string[]> {
  const reply = await mongo.db.command({ explain: seen.explainable, verbosity: 'queryPlanner' });
  const planner = reply.queryPlanner ?? reply.stages?.[0]?.$cursor?.queryPlanner;
  const stages: string[] = [];
  for (
    let stage: Document | undefined = planner?.winningPlan;
    stage !== undefined;
    stage = stage.inputStage ?? stage.queryPlan
  ) {
    if (stage.stage !== undefined)
      stages.push(stage.indexName === undefined ? stage.stage : `${stage.stage} ${stage.indexName}`);
  }
  return stages;
}

/**
 * Returns the plan of a filter. The stand-in in Python explains every filter with a condition outside an index as a scan, although it
 * runs it from the index. If it shows a scan, this returns the plan of the conditions that the filter shares with an index instead.
 */
async function planOrCore(mongo: Mongo, seen: SeenFilter): Promise<string[]> {
  const plan = await planOf(mongo, seen);
  if (!plan.some((stage) => stage.startsWith('COLLSCAN')) || !(await isStandInInPython(mongo))) return plan;
  const filter: Document = seen.explainable.filter ?? seen.explainable.pipeline?.[0]?.$match ?? {};
  // Any MongoDB reads a range of ids by the index of `_id`, which this stand-in does not use for ranges.
  if (Object.keys(filter).join() === '_id') return ['IXSCAN _id_'];
  const cores = INDEXES.filter(({ collection }) => collection === seen.collection).map(({ keys }) =>
    coreOf(filter, keys),
  );
  const [best = {}] = cores.sort((a, b) => Object.keys(b).length - Object.keys(a).length);
  if (Object.keys(best).length === 0) return plan;
  return planOf(mongo, { ...seen, explainable: { find: seen.collection, filter: best } });
}

/** Returns true on the stand-in in Python, whose plans show less than those of other servers. */
export async function isStandInInPython(mongo: Mongo): Promise<boolean> {
  const { secantusVersion, buildEnvironment } = await mongo.db.command({ buildInfo: 1 });
  return secantusVersion !== undefined && buildEnvironment?.cc !== 'rustc';
}

/** Returns the conditions of a filter on the leading fields of an index, as far as they are equalities. */
function coreOf(filter: Document, keys: Readonly<Record<string, unknown>>): Document {
  const core: Document = {};
  for (const field of Object.keys(keys)) {
    const value: unknown = filter[field];
    if (value === undefined || (typeof value === 'object' && value !== null)) break;
    core[field] = value;
  }
  return core;
}

/**
 * Explains each recorded filter and requires that none scans a collection, and that at least `least` different filters were seen. Skips
 * filters that fix `_id`: they read one document on any server, but the stand-in in Python explains them as COLLSCAN if they have a
 * second condition. A write is explained as a read with its filter.
 */
export async function noneScans(
  t: Pick<Test, 'comment' | 'strictSame' | 'ok'>,
  mongo: Mongo,
  seen: ReadonlyMap<string, SeenFilter>,
  least: number,
): Promise<void> {
  const scanned = [];
  for (const filter of seen.values()) {
    if (filter.isPointRead) continue;
    const plan = await planOrCore(mongo, filter);
    t.comment(`${plan.join(' < ')}: ${filter.shape}`);
    if (plan.length === 0 || plan.some((stage) => stage.startsWith('COLLSCAN'))) scanned.push(filter.shape);
  }
  t.strictSame(scanned, []);
  const [all, points] = [seen.size, [...seen.values()].filter((filter) => filter.isPointRead).length];
  t.ok(all >= least, `${all} different filters were seen, ${points} of them point reads`);
}
