import type { ServerResponse } from 'node:http';
import type { ErrorCode, FaultDetail, Rejection } from '#shared/kernel/errors.ts';

/**
 * A row of a service's route table. `path` uses `:name` for parameters. `body.schema` and `query` name schemas by
 * their `$id` in `schemas/`; a route without `body` (GET, HEAD, DELETE) ignores what is sent. `errors` are the codes that the handler
 * itself can answer (the server's and the guards' are added by the OpenAPI generator).
 */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  operation: string;
  summary: string;
  guards: readonly Guard[];
  /** Headers that the handler itself reads. */
  headers?: readonly HeaderDoc[];
  body?: BodyRule;
  query?: string;
  replies: readonly ReplyDoc[];
  errors: readonly ErrorCode[];
  /** Of the codes whose failures carry `data`, the id of its schema; for OpenAPI. */
  failureData?: Readonly<Partial<Record<ErrorCode, string>>>;
  // The body has passed `body.schema` when the handler sees it; the handler names the generated type.
  handle(call: Call<never, never>): Promise<Reply | Rejection | RawReply>;
}

/**
 * One check on the head of a request, made before a byte of the body is read. Guards run in the order in which
 * a route lists them; the first rejection answers. `codes` are all that it can answer, for OpenAPI.
 */
export interface Guard {
  name: string;
  codes: readonly ErrorCode[];
  /** Header names that the guard reads, for OpenAPI; `required` false where absence is no fault. */
  headers: readonly HeaderDoc[];
  /** Roles that pass, of a guard that judges them; for OpenAPI. */
  roles?: readonly string[];
  /** Of a guard that trusts identity headers: whether it does so of every request, or of this one. The gateway's token is demanded first. */
  trustsIdentity?: 'always' | ((head: Head) => boolean);
  check(head: Head, identity: Identity): Rejection | undefined;
}

/** A request header, for OpenAPI. */
export interface HeaderDoc {
  name: string;
  required: boolean;
  description: string;
  example?: string;
}

/** Header values by lower-cased name, each exactly as it came. A header sent twice is listed in `repeated`. */
export interface Head {
  method: string;
  path: string;
  headers: Readonly<Record<string, string | undefined>>;
  repeated: ReadonlySet<string>;
  params: Readonly<Record<string, string>>;
}

/** What the guards learnt from the head of a request; each guard fills its own field. */
export interface Identity {
  actor?: Actor;
  idempotency?: { key: string; header: string };
  sender?: string;
  /** The account and session of a good access token. */
  session?: { accountId: string; sessionId: string };
  /** A token that came as `Authorization: Bearer`, not yet looked at. */
  bearer?: string;
  /** What new objects of this call belong to, where their body does not say. */
  organizationId?: string;
}

/** Who calls, as the gateway's identity headers say. Present only on routes whose guards demand it. */
interface Actor {
  id: string;
  role: string;
}

/** What a route takes as its body. */
export interface BodyRule {
  schema: string;
  maxBytes: number;
  /**
   * Further faults of a body that is refused already, in whose shape `known` were found, where the handler would tell of them
   * only once the rest is right.
   */
  moreFaults?(body: unknown, known: readonly FaultDetail[]): readonly FaultDetail[];
}

const KIB = 1_024;

/** Most bytes of a body that is a handful of fields. */
export const SMALL_BODY = 256 * KIB;
/** Of one that carries a whole essay. */
export const ESSAY_BODY = 1_024 * KIB;
/** Of one that carries a whole paper, or the recipients of a fan-out. */
export const LARGE_BODY = 8 * 1_024 * KIB;

/** The body of a command that is all said by its path and head: none, or an object without fields. */
export const NO_FIELDS: BodyRule = { schema: 'common/no-fields', maxBytes: SMALL_BODY };

/** What a route can answer when all is well, for OpenAPI: status, schema id of `data`, sentence. */
export interface ReplyDoc {
  status: number;
  schema: string;
  description: string;
  /** Reply headers of its own: name and what it tells. */
  headers?: Readonly<Record<string, string>>;
}

/** A request that passed every check that needs no stored object. */
export interface Call<Body = unknown, Query = unknown> {
  requestId: string;
  params: Readonly<Record<string, string>>;
  query: Query;
  body: Body;
  headers: Readonly<Record<string, string | undefined>>;
  identity: Identity;
  /** Address of the other end of the socket; behind a proxy that of the proxy. */
  peer: string;
  /** Aborted when the client goes away or the process must stop. */
  signal: AbortSignal;
}

/** A handler's answer, which the server puts into the envelope. */
export interface Reply {
  /** Only a reply that writes itself names its kind. */
  kind?: never;
  status: number;
  data: unknown;
  message?: string;
  headers?: Record<string, string>;
}

/** A reply that is written by its handler: streams, metrics. The handler must end the response. */
export interface RawReply {
  kind: 'raw';
  raw: (response: ServerResponse) => Promise<void>;
}
