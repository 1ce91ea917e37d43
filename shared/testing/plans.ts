import type { Document } from 'mongodb';
import type { Mongo } from '../infra/mongo/connect.ts';

/** One read or write of the product, as the driver sent it. */
export interface SeenFilter {
  collection: string;
  /** What a plan depends on: which command, which fields, which order. */
  shape: string;
  /** The same selection as a command that any server explains. */
  explainable: Document;
  /** `_id` by equality or $in. */
  isPointRead: boolean;
}

/** Writes down every filter that passes through this client; before its first connection is made. */
export function watchFilters(mongo: Mongo): { seen: Map<string, SeenFilter>; commands: string[] } {
  const seen = new Map<string, SeenFilter>();
  const commands: string[] = [];
  // The product has no seam for this; the driver's own switch is internal.
  Reflect.set(mongo.client, 'monitorCommands', true);
  mongo.client.on('commandStarted', ({ commandName, command }) => {
    commands.push(commandName);
    for (const found of filtersOf(commandName, command)) seen.set(found.shape, found);
  });
  return { seen, commands };
}

function filtersOf(name: string, command: Document): SeenFilter[] {
  const collection = String(command[name]);
  const hint = command.hint === undefined ? {} : { hint: command.hint };
  const asFind = (filter: Document, sort: Document = {}, limit = 0) => ({
    ...{
      collection,
      isPointRead: pinsId(filter),
      shape: JSON.stringify([name, collection, shapeOf(filter), sort, hint]),
    },
    explainable: { find: collection, filter, sort, ...hint, ...(limit > 0 ? { limit } : {}) },
  });
  if (name === 'find') return [asFind(command.filter ?? {}, command.sort, command.limit)];
  if (name === 'findAndModify') return [asFind(command.query, command.sort)];
  if (name === 'update') return command.updates.map((update: Document) => asFind(update.q));
  if (name === 'delete') return command.deletes.map((one: Document) => asFind(one.q));
  if (name !== 'aggregate' || typeof command.aggregate !== 'string') return [];
  const { pipeline } = command;
  const explainable = { aggregate: collection, pipeline, cursor: {}, ...hint };
  const filter: Document = pipeline[0]?.$match ?? {};
  return [
    { collection, explainable, isPointRead: pinsId(filter), shape: JSON.stringify([name, collection, pipeline, hint]) },
  ];
}

function pinsId({ _id }: Document): boolean {
  if (_id === undefined || _id === null) return false;
  return typeof _id !== 'object' || Object.keys(_id).every((operator) => operator === '$in' || operator === '$eq');
}

/** Fields and operators without their values. */
function shapeOf(filter: Document): unknown {
  return Object.entries(filter).map(([field, value]) =>
    typeof value === 'object' && value !== null && !(value instanceof Date)
      ? [field, Object.keys(value).sort()]
      : field,
  );
}

/** The stages of the plan that the server would run, outermost first, and the index of each scan of one. */
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
