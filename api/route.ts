import type { ServerResponse } from 'node:http';
import type { DroppedField } from '#infra/schema/segment.ts';
import type { ErrorCode, FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';

/**
 * A row of a service's route table. `path` uses `:name` for parameters. `body.schema` and `query` name schemas by
 * their `$id` in `schemas/`. A route without `body` (GET, HEAD, DELETE) ignores any body. `errors` are the codes that the
 * handler itself can return; the OpenAPI generator adds those of the server and the guards.
 */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** True if HEAD is answered as GET is, without the body; for probes. */
  alsoHead?: true;
  /** A browser's GET of any address below this one that no route answers gets the page of this route. */
  pageBelow?: string;
  operation: string;
  summary: string;
  /** Effect, use and repetition of the operation, as Markdown. Every operation of the API has one; a page of the console has none. */
  description?: string;
  /** Group of the operation in OpenAPI. Every operation of the API has one. */
  tag?: Tag;
  /** Description of each parameter of the path, for OpenAPI. */
  params?: Readonly<Record<string, string>>;
  guards: readonly Guard[];
  /** Headers that the handler itself reads. */
  headers?: readonly HeaderDoc[];
  body?: BodyRule;
  query?: string;
  /**
   * True if a POST may carry a form of any type, whose body stays unread. Only for a route whose proof no foreign page has: the links of
   * e-mails, to which mail programs post forms (RFC 8058).
   */
  takesAnyForm?: true;
  replies: readonly ReplyDoc[];
  errors: readonly ErrorCode[];
  /** Schema id of the failure's `data`, for each code that carries `data`; for OpenAPI. */
  failureData?: Readonly<Partial<Record<ErrorCode, string>>>;
  // The body has passed `body.schema` before the handler runs; the handler declares the generated type.
  handle(call: Call<never, never>): Promise<Reply | TextReply | RawReply | Rejection>;
}

/** A group of operations: those of one service about one subject. */
export interface Tag {
  name: string;
  description: string;
  /** Schemas that document the work behind these routes; no route takes or returns them. */
  envelopes?: { request: string; result: string } | undefined;
}

/** A header that proves who calls, for OpenAPI. */
export interface SecurityScheme {
  /** Name in the document; clients are generated with it. */
  name: string;
  /** The header. `bearer` means `Authorization: Bearer`. */
  header: string;
  description: string;
  /** Set for a header that identifies the caller. Where a gateway token is configured, such a header counts only beside it. */
  tells?: 'identity' | 'role';
}

/** A proof that a request must carry. `values`: the roles or senders of which it must name one; absent for any. */
export interface Proof {
  scheme: SecurityScheme;
  values?: readonly string[];
}

/**
 * One check on the head of a request, made before a byte of the body is read. Guards run in the order in which
 * a route lists them, and the first rejection is the reply. `codes` are all codes of the guard's rejections, for OpenAPI.
 */
export interface Guard {
  name: string;
  codes: readonly ErrorCode[];
  /** Headers that the guard reads beside its proofs, for OpenAPI. `required` is false if the header may be absent. */
  headers: readonly HeaderDoc[];
  /**
   * Alternatives by which a request passes, for OpenAPI: all proofs of one of them. An empty one passes without a proof.
   * Default: the guard requires no proof.
   */
  proofs?: readonly (readonly Proof[])[];
  /** Roles that pass, if the guard only checks the role of an earlier guard; for OpenAPI. */
  roles?: readonly string[];
  /** True if a caller without a role passes `roles` too. */
  admitsNoRole?: true;
  /** True if the proofs of this guard are required only beside those that identify the caller. */
  vouches?: true;
  /** Requests whose identity headers the guard trusts; absent for none. These must first carry the gateway's token. */
  trustsIdentity?: 'always' | ((head: Head) => boolean);
  /**
   * Proof that a passed guard is: `identity` if the gateway or a service vouches for the caller, `account` for a valid access token,
   * absent for none. It selects the body budget of the route.
   */
  proves?: 'identity' | 'account';
  /**
   * Returns the kind of token in the head that the guard reads and that is wrong; undefined if the head has none or a right one. Only
   * called for a request that was refused.
   */
  wrongToken?: (head: Head) => 'operator' | 'gateway' | 'service' | undefined;
  check(head: Head, identity: Identity): Rejection | undefined;
}

/** A request header, for OpenAPI. */
export interface HeaderDoc {
  name: string;
  required: boolean;
  description: string;
  example?: string;
}

/** Head of a request. Headers are by lower-case name, with values as sent. A header sent twice is listed in `repeated`. */
export interface Head {
  method: string;
  path: string;
  headers: Readonly<Record<string, string | undefined>>;
  repeated: ReadonlySet<string>;
  params: Readonly<Record<string, string>>;
}

/** Facts that the guards have read from the head of a request; each guard fills its own field. */
export interface Identity {
  actor?: ActorIdentity;
  /** Header that named the role of `actor`. */
  roleHeader?: string;
  idempotency?: { key: string; header: string };
  sender?: string;
  /** Account and session of a valid access token. */
  session?: { accountId: string; sessionId: string };
  /** Token of the `Authorization: Bearer` header, not verified yet. */
  bearer?: string;
  /**
   * Returns why the header is refused, unless the body holds a token that replaces it; undefined for a body that could not be read. The
   * refusal takes the place of any fault of the body. Absent if the header is missing or holds a valid token.
   */
  bearerFault?(body: unknown): Rejection | undefined;
  /** The operator whom the audit names: the holder of OPS_TOKEN, or an ADMIN. */
  operator?: string;
  /** Organization of the caller: the default of new objects, or the scope of the call, depending on the guard. */
  organizationId?: string;
}

/** The caller named by the gateway's identity headers. Present only on routes whose guards read them. */
interface ActorIdentity {
  id: string;
  /** Empty if the route permits an absent role and the gateway sent none. */
  role: string;
}

/** Schema and limits of a route's body. */
export interface BodyRule {
  schema: string;
  maxBytes: number;
  /** True for a form of the console instead of JSON; its schema is `operations/form`. The handler checks who sent it. */
  isForm?: true;
  /**
   * Fields that may have more than 30 combining marks in a row, as JSON pointers (`/field` for a form); every other text with such a run is
   * refused. Only for a text that is stored exactly as sent or that no handler stores.
   */
  anyMarks?: readonly string[];
  /**
   * Name of a member of the body that many callers send alike, an array: its bytes are parsed and checked once. The handler gets the same
   * array for each of them and may not change it.
   */
  repeated?: string;
  /**
   * Returns further faults of a body that is refused for `known`, the faults of its shape. Otherwise the handler would report
   * these faults only in a later reply, once the shape is right.
   */
  moreFaults?(body: unknown, known: readonly FaultDetail[]): readonly FaultDetail[] | Pieces<readonly FaultDetail[]>;
}

const KIB = 1_024;

/** Size limit (bytes) of a body with a handful of fields. */
export const SMALL_BODY = 256 * KIB;
/** Size limit (bytes) of a body with a whole essay. */
export const ESSAY_BODY = 1_024 * KIB;
/** Size limit (bytes) of a body with a whole paper, or with the recipients of a fan-out. */
export const LARGE_BODY = 8 * 1_024 * KIB;

/** Body rule of a route that needs only path and head: no body, or an object without fields. */
export const NO_FIELDS: BodyRule = { schema: 'common/no-fields', maxBytes: SMALL_BODY };

/** A success reply of a route, for OpenAPI: status, schema id of `data`, and a description. */
export interface ReplyDoc {
  status: number;
  schema: string;
  description: string;
  /** Extra reply headers: name and description. */
  headers?: Readonly<Record<string, string>>;
  /** Operation whose recorded reply of this status is shown as an example, for one that no page can cause. */
  exampleOf?: string;
}

/** A request that passed every check that needs no stored object. */
export interface Call<Body = unknown, Query = unknown> {
  requestId: string;
  params: Readonly<Record<string, string>>;
  query: Query;
  body: Body;
  /** Unknown fields that the shape of the body permits and that were dropped, outside arrays. Absent: none. */
  dropped?: readonly DroppedField[];
  headers: Readonly<Record<string, string | undefined>>;
  /** Path and query as sent. */
  target?: string;
  identity: Identity;
  /** Address of the other end of the socket; behind a proxy, the address of the proxy. */
  peer: string;
  /** Aborted when the client leaves or the process must stop. */
  signal: AbortSignal;
  /** Aborted only when the process must stop. For work that must be finished even if the client leaves. */
  stop: AbortSignal;
}

/** A handler's result, which the server writes in the envelope. */
export interface Reply {
  /** Always absent: only other replies have a kind. */
  kind?: never;
  status: number;
  data: unknown;
  message?: string;
  headers?: Record<string, string>;
}

/** A handler's result whose `data` is JSON already, in parts. The server writes it in the envelope, with the message OK. */
export interface TextReply {
  kind: 'text';
  status: number;
  data: readonly (string | Buffer)[];
  headers?: Record<string, string>;
}

/** A reply that its handler writes itself, such as a stream or metrics. The handler must end the response. */
export interface RawReply {
  kind: 'raw';
  raw: (response: ServerResponse) => Promise<void>;
}
