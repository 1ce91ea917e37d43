import type { IncomingMessage, ServerResponse } from 'node:http';
import type restify from 'restify';
import type { Route } from '#api/route.ts';
import type { QueryParser, Schemas } from '#infra/schema/validator.ts';
import { type Callers, callersOf } from './body-budget.ts';
import type { Exchange } from './exchange.ts';
import { RepeatedMember } from './repeated-member.ts';

/** Result of routing. `wrong-method`: the path exists, but only with the methods in `allow`. */
export type Match =
  | { kind: 'found'; mounted: MountedRoute; params: Readonly<Record<string, string>> }
  | { kind: 'wrong-method'; allow: string }
  | { kind: 'no-route' };

/** The steps of a request before and after its routing. */
export interface Serving {
  /** Registers a request whose head has arrived. */
  receive(request: IncomingMessage, response: ServerResponse): Exchange;
  /** Answers it, also after an error; never rejects. */
  serve(exchange: Exchange, match: Match): Promise<void>;
}

/** restify's server. Its published types lack the hook that runs before restify's own work; false prevents that work. */
export interface Routing extends restify.Server {
  first(hook: (request: IncomingMessage, response: ServerResponse) => boolean): void;
}

/** A request that restify routes. */
interface Passing extends restify.Request {
  exchange: Exchange;
  route?: restify.Route;
}

type Handler = (request: Passing, response: restify.Response & { methods?: string[] }) => void;

const VERBS = { GET: 'get', HEAD: 'head', POST: 'post', PUT: 'put', PATCH: 'patch', DELETE: 'del' } as const;
type Method = keyof typeof VERBS;

const HTML = /\btext\/html\b/i;
/** The form of every path that has a route: the root, or segments that are ids. */
const PATH = /^\/$|^(?:\/[\w.:-]{1,128})+$/;

/**
 * Mounts the routes on restify's router. A static segment wins over a parameter, whichever methods the two paths have, unless it leads to
 * no route. A browser's GET of an address without a route gets the page of `pageBelow`. Throws at boot if two routes collide. The first
 * segment of each path is static: the router would match `/` with a parameter.
 */
export function mountRoutes(outer: Routing, rows: readonly MountedRoute[], { receive, serve }: Serving): void {
  const mounts = rows.flatMap((row) => {
    const { method, alsoHead } = row.route;
    const methods: Method[] = alsoHead === true ? [method, 'HEAD'] : [method];
    return methods.map((name) => ({ method: name, shape: shapeOf(row.route.path), row }));
  });
  const pages = rows.filter(({ route }) => route.pageBelow !== undefined);

  outer.first((request, response) => {
    const exchange = receive(request, response);
    const pathname = routable(exchange.path);
    if (pathname === undefined) miss(exchange);
    // restify's own `getUrl` folds `/a/../b`. For `Host: [` or the target `http://[` it throws in a later tick, which ends the process.
    else Object.assign(request, { exchange, getUrl: () => ({ pathname }) });
    return pathname !== undefined;
  });
  // This listener of restify sets the status of a reply to 444 when the client leaves, even if the reply has been sent.
  outer.on('pre', (request: IncomingMessage) => request.removeAllListeners('aborted'));
  outer.on('restifyError', missed);

  for (const { method, row } of mounts) {
    const { path, operation } = row.route;
    mount(method, path, method === 'HEAD' ? `${operation}Head` : operation, ({ exchange, params }) => {
      for (const name in params) params[name] = decodeURIComponent(params[name]);
      void serve(exchange, { kind: 'found', mounted: row, params });
    });
  }
  // The router has a tree for each method. Without these, a parameter in one tree would match the static segment of a path in another.
  for (const [shape, methods] of treesOf(mounts)) {
    for (const method of methods.difference(new Set(methodsOf(shape)))) mount(method, shape, '', missed);
  }

  /** Mounts a handler. It calls no `next`, with which restify would answer a client that has left, in a form of its own. */
  function mount(method: Method, path: string, name: string, handler: Handler): void {
    outer[VERBS[method]]({ path, name }, (request, response, _next) => handler(request as Passing, response));
  }

  /** Answers a request for which there is no route of its method. restify names the methods that the path has, if any. */
  function missed(request: Passing, response: restify.Response & { methods?: string[] }): void {
    const { exchange, route, getUrl } = request;
    const near = { method: response.methods?.[0] ?? '', params: {}, route, getUrl };
    outer.router.lookup(near as Passing, response);
    response.removeHeader('Allow');
    miss(exchange, near.route);
  }

  function miss(exchange: Exchange, near?: restify.Route): void {
    const { request, path } = exchange;
    const isBrowser = request.method === 'GET' && HTML.test(request.headers.accept ?? '');
    const page = isBrowser ? pages.find(({ route }) => path.startsWith(route.pageBelow ?? path)) : undefined;
    if (page !== undefined) void serve(exchange, { kind: 'found', mounted: page, params: {} });
    else if (near === undefined) void serve(exchange, { kind: 'no-route' });
    else void serve(exchange, { kind: 'wrong-method', allow: methodsOf(shapeOf(String(near.path))).join(', ') });
  }

  function methodsOf(shape: string): Method[] {
    return mounts.flatMap((one) => (one.shape === shape ? one.method : [])).sort();
  }
}

/**
 * Returns the path that restify's router matches, or undefined if no route can have it. The router decodes `%`, and a gateway that checks
 * paths by prefix would then see another path than we do. So `%` is encoded once more: a segment matches as it was sent.
 */
function routable(path: string): string | undefined {
  if (PATH.test(path)) return path;
  if (!path.includes('%') || /%2f/i.test(path)) return undefined;
  try {
    return PATH.test(decodeURIComponent(path)) ? path.replaceAll('%', '%25') : undefined;
  } catch {
    return undefined;
  }
}

/** Returns a path without the names of its parameters, which two methods may call differently. */
function shapeOf(path: string): string {
  return path.replace(/:\w+/g, ':x');
}

/** Returns the methods in whose trees each shape must be: those of every shape that some path has too, and of the rivals of these. */
function treesOf(mounts: readonly { method: Method; shape: string }[]): Map<string, Set<Method>> {
  const trees = new Map(mounts.map(({ shape }) => [shape, new Set<Method>()]));
  for (const { method, shape } of mounts) trees.get(shape)?.add(method);
  // A shape that enters a tree because of one rival meets the other shapes of that tree.
  for (let isGrowing = true; isGrowing; ) {
    isGrowing = false;
    for (const [shape, methods] of trees) {
      for (const [other, more] of trees) {
        if (!overlap(shape, other) || more.isSubsetOf(methods)) continue;
        for (const method of more) methods.add(method);
        isGrowing = true;
      }
    }
  }
  return trees;
}

/** Returns true if some path has both shapes. */
function overlap(a: string, b: string): boolean {
  const [parts, others] = [a.split('/'), b.split('/')];
  const fits = (part: string, at: number) => part === others[at] || part === ':x' || others[at] === ':x';
  return parts.length === others.length && parts.every(fits);
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
  /** Undefined for a route without such a member. */
  repeated: RepeatedMember | undefined;
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
      repeated: route.body.repeated === undefined ? undefined : new RepeatedMember(route.body.repeated),
      callers: callersOf(route.guards),
    },
    parseQuery: schemas.queryParser(route.query),
    hasQuery: route.query !== undefined,
  };
}
