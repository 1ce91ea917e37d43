import type { CountedRoute } from './route-counts.ts';

/** A statement that may go to every shard. */
export interface Broadcast {
  readonly collection: string;
  readonly command: string;
  /** As `shapeOf` prints the filter. */
  readonly shape: string;
  /** Why it cannot name the shard key. */
  readonly why: string;
  /** How often it is sent, at most. */
  readonly rate: string;
  /** Files that may send it, relative to the root: those that call the driver. Another file may have to name the shard key. */
  readonly files: readonly string[];
}

/**
 * Returns statements that share a reason and their files. Each is written as a test run prints it: `collection command {shape}`.
 * @throws if a statement is written otherwise
 */
export function broadcasts(
  { why, rate, files }: Pick<Broadcast, 'why' | 'rate' | 'files'>,
  statements: readonly string[],
): Broadcast[] {
  return statements.map((statement) => {
    const [, collection, command, shape] = /^(\w+) (\w+) \{(.*)\}$/.exec(statement) ?? [];
    if (collection === undefined || command === undefined || shape === undefined) {
      throw new Error(`no statement: ${statement}`);
    }
    return { collection, command, shape, why, rate, files };
  });
}

const FAULTS: Partial<Record<CountedRoute['reach'], string>> = {
  refused: 'a write of one document that does not name one shard, or of several that sets the shard key',
  'in turn': 'an ordered batch over several shards',
};

/** Returns one line for each statement that a sharded cluster would refuse, or send one after the other. */
export function faultyRoutes(routes: readonly CountedRoute[]): string[] {
  return routes
    .flatMap((route) => {
      const fault = FAULTS[route.reach];
      return fault === undefined ? [] : [`${nameOf(route)} in ${route.file} (${route.count}): ${fault}`];
    })
    .sort();
}

/** Returns one line for each statement that went to every shard and is not in the list, or not for the file that sent it. */
export function unlistedBroadcasts(routes: readonly CountedRoute[], listed: readonly Broadcast[]): string[] {
  const known = filesByName(listed);
  return routes
    .filter((route) => route.reach === 'every' && known.get(nameOf(route))?.has(route.file) !== true)
    .map((route) => {
      const others = [...(known.get(nameOf(route)) ?? [])];
      return `${nameOf(route)} in ${route.file} (${route.count})${others.length === 0 ? '' : `, listed for ${others.join(', ')}`}`;
    })
    .sort();
}

/** Returns the names of listed broadcasts that no process sent, each with the file that did not. */
export function unseenBroadcasts(routes: readonly CountedRoute[], listed: readonly Broadcast[]): string[] {
  const seen = new Set(routes.map((route) => `${nameOf(route)} in ${route.file}`));
  const expected = [...filesByName(listed)].flatMap(([name, files]) => [...files].map((file) => `${name} in ${file}`));
  return expected.filter((name) => !seen.has(name));
}

/** Returns the files of each statement. A statement may be listed for several reasons. */
function filesByName(listed: readonly Broadcast[]): Map<string, Set<string>> {
  const byName = new Map<string, Set<string>>();
  for (const entry of listed)
    byName.set(nameOf(entry), (byName.get(nameOf(entry)) ?? new Set()).union(new Set(entry.files)));
  return byName;
}

/** Statements of one collection by their reach. */
export interface CollectionRoutes {
  readonly collection: string;
  readonly one: number;
  readonly few: number;
  readonly every: number;
}

/** Adds the counts up by collection, the most often used one first. */
export function routesByCollection(routes: readonly CountedRoute[]): CollectionRoutes[] {
  const groups = Object.entries(Object.groupBy(routes, ({ collection }) => collection));
  const sums = groups.map(([collection, group = []]) => {
    const count = (reach: CountedRoute['reach']) =>
      group.filter((route) => route.reach === reach).reduce((sum, route) => sum + route.count, 0);
    return { collection, one: count('one'), few: count('few'), every: count('every') };
  });
  const total = ({ one, few, every }: CollectionRoutes) => one + few + every;
  return sums.sort((a, b) => total(b) - total(a));
}

function nameOf({ collection, command, shape }: Pick<Broadcast, 'collection' | 'command' | 'shape'>): string {
  return `${collection} ${command} {${shape}}`;
}
