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
}

/**
 * Returns statements that share a reason. Each is written as a test run prints it: `collection command {shape}`.
 * @throws if a statement is written otherwise
 */
export function broadcasts({ why, rate }: Pick<Broadcast, 'why' | 'rate'>, statements: readonly string[]): Broadcast[] {
  return statements.map((statement) => {
    const [, collection, command, shape] = /^(\w+) (\w+) \{(.*)\}$/.exec(statement) ?? [];
    if (collection === undefined || command === undefined || shape === undefined) {
      throw new Error(`no statement: ${statement}`);
    }
    return { collection, command, shape, why, rate };
  });
}

/** Returns one line for each statement that went to every shard and is not in the list. */
export function unlistedBroadcasts(routes: readonly CountedRoute[], listed: readonly Broadcast[]): string[] {
  const known = new Set(listed.map(nameOf));
  return routes
    .filter((route) => route.reach === 'every' && !known.has(nameOf(route)))
    .map((route) => `${nameOf(route)} in ${route.file} (${route.count})`)
    .sort();
}

/** Returns the names of listed broadcasts that no process sent. */
export function unseenBroadcasts(routes: readonly CountedRoute[], listed: readonly Broadcast[]): string[] {
  const seen = new Set(routes.map(nameOf));
  return listed.map(nameOf).filter((name) => !seen.has(name));
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
