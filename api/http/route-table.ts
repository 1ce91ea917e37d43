import type { Route } from '#api/route.ts';
import type { QueryParser, Schemas } from '#infra/schema/validator.ts';
import { type Callers, callersOf } from './body-budget.ts';

/** One row to compile. `value` is returned for each request that matches the row. */
interface TableRow<T> {
  method: string;
  path: string;
  value: T;
}

/** Result of a lookup. `wrong-method`: the path exists, but only with the methods in `allow`. */
type Match<T> =
  | { kind: 'found'; value: T; params: Readonly<Record<string, string>> }
  | { kind: 'wrong-method'; allow: string }
  | { kind: 'no-route' };

type RouteTable<T> = (method: string, path: string) => Match<T>;

interface Branch<T> {
  statics: Map<string, Branch<T>>;
  parameter: Branch<T> | undefined;
  methods: Map<string, { value: T; names: readonly string[] }>;
}

const PATH_ID = /^[A-Za-z0-9._:-]{1,128}$/;
const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({});
const HTML = /\btext\/html\b/i;
const NO_ROUTE = { kind: 'no-route' } as const;

/**
 * Compiles rows into a lookup by path segment. Paths match as sent: dot segments, slashes and case are not normalized,
 * because a gateway that checks paths by prefix would otherwise see another path than we do. Parameters are percent-decoded
 * and must have the form of an id; any other value finds no route. Throws at boot if two rows collide.
 */
export function compileTable<T>(rows: readonly TableRow<T>[]): RouteTable<T> {
  const root = newBranch<T>();
  for (const row of rows) insertRow(root, row);
  return (method, path) => {
    const segments = path.split('/');
    if (segments[0] !== '' || segments.length < 2) return NO_ROUTE;
    const values: string[] = [];
    const branch = findBranch(root, segments, 1, values);
    if (branch === undefined) return NO_ROUTE;
    const leaf = branch.methods.get(method);
    if (leaf === undefined) return { kind: 'wrong-method', allow: [...branch.methods.keys()].sort().join(', ') };
    return { kind: 'found', value: leaf.value, params: values.length === 0 ? NO_PARAMS : named(leaf.names, values) };
  };
}

/**
 * Returns a lookup that also has the page of `pageBelow` for a browser that opens an address without a route, or one that takes other
 * methods only. `accept` is the header of the request; a browser names `text/html` in it.
 */
export function withPages(
  table: RouteTable<MountedRoute>,
  rows: readonly MountedRoute[],
): (method: string, path: string, accept: string | undefined) => Match<MountedRoute> {
  const pages = rows.filter(({ route }) => route.pageBelow !== undefined);
  return (method, path, accept = '') => {
    const match = table(method, path);
    if (match.kind === 'found' || method !== 'GET' || !HTML.test(accept)) return match;
    const value = pages.find(({ route }) => path.startsWith(route.pageBelow ?? path));
    return value === undefined ? match : { kind: 'found', value, params: NO_PARAMS };
  };
}

function insertRow<T>(root: Branch<T>, row: TableRow<T>): void {
  const names: string[] = [];
  let branch = root;
  for (const segment of row.path.split('/').slice(1)) {
    if (segment.startsWith(':')) {
      names.push(segment.slice(1));
      branch.parameter ??= newBranch();
      branch = branch.parameter;
    } else {
      const next = branch.statics.get(segment) ?? newBranch<T>();
      branch.statics.set(segment, next);
      branch = next;
    }
  }
  if (branch.methods.has(row.method)) throw new Error(`Two routes answer ${row.method} ${row.path}`);
  branch.methods.set(row.method, { value: row.value, names });
}

function newBranch<T>(): Branch<T> {
  return { statics: new Map(), parameter: undefined, methods: new Map() };
}

/** Returns the branch of the segments. A static segment wins; if it leads to no route, the parameter is used instead. */
function findBranch<T>(branch: Branch<T>, segments: string[], index: number, values: string[]): Branch<T> | undefined {
  const segment = segments[index];
  if (segment === undefined) return branch.methods.size > 0 ? branch : undefined;
  const fixed = branch.statics.get(segment);
  if (fixed !== undefined) {
    const end = findBranch(fixed, segments, index + 1, values);
    if (end !== undefined) return end;
  }
  if (branch.parameter === undefined) return undefined;
  const value = decodedId(segment);
  if (value === undefined) return undefined;
  values.push(value);
  const end = findBranch(branch.parameter, segments, index + 1, values);
  if (end === undefined) values.pop();
  return end;
}

function decodedId(segment: string): string | undefined {
  let id = segment;
  if (segment.includes('%')) {
    try {
      id = decodeURIComponent(segment);
    } catch {
      return undefined;
    }
  }
  return PATH_ID.test(id) ? id : undefined;
}

function named(names: readonly string[], values: readonly string[]): Readonly<Record<string, string>> {
  const params: Record<string, string> = {};
  for (let i = 0; i < names.length; i += 1) params[names[i] ?? ''] = values[i] ?? '';
  return params;
}

/** A route with its schemas compiled, so that a request needs no lookup by name. */
export interface MountedRoute {
  route: Route;
  body: MountedBody | undefined;
  parseQuery: QueryParser;
  /** False if the route has no query schema; an empty query is then not parsed. */
  hasQuery: boolean;
}

/** The body rule of a route, with its schema compiled. */
export interface MountedBody {
  check: ReturnType<Schemas['checker']>;
  maxBytes: number;
  isForm: boolean;
  anyMarks: readonly string[];
  callers: Callers;
}

/** Compiles the schemas of a route. Throws at boot if the route names a schema that does not exist. */
export function mountRoute(route: Route, schemas: Pick<Schemas, 'checker' | 'queryParser'>): MountedRoute {
  return {
    route,
    body: route.body && {
      check: schemas.checker(route.body.schema),
      maxBytes: route.body.maxBytes,
      isForm: route.body.isForm === true,
      anyMarks: route.body.anyMarks ?? [],
      callers: callersOf(route.guards),
    },
    parseQuery: schemas.queryParser(route.query),
    hasQuery: route.query !== undefined,
  };
}
