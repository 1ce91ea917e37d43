import type { Reply } from '#api/route.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import type { DroppedField } from '#infra/schema/segment.ts';
import { MAX_FAULTS } from '#infra/schema/validator.ts';
import { type FaultDetail, isRejection } from '#shared/kernel/errors.ts';
import { shownName } from '#shared/kernel/json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import type { BodyRead } from './body.ts';
import { parseForm } from './headers.ts';
import { parseBody } from './json.ts';
import { refused } from './reply.ts';
import type { MountedBody, MountedRoute } from './route-table.ts';

/** A parsed body: its value, the faults of that value, and the unknown fields that it had. */
interface RequestBody {
  kind: 'body';
  value: unknown;
  faults: FaultDetail[];
  dropped: readonly DroppedField[];
}

const NONE: readonly DroppedField[] = [];

/** The body of a route that reads none. */
export const UNREAD = { kind: 'unread' } as const;

/** Checks JSON and shape of a body that was read. */
export function* parsedBody(
  read: BodyRead | typeof UNREAD,
  { body }: MountedRoute,
): Pieces<RequestBody | Exclude<BodyRead, { kind: 'read' }>> {
  if (read.kind === 'refused' || read.kind === 'gone') return read;
  if (read.kind === 'unread' || body === undefined)
    return { kind: 'body', value: undefined, faults: [], dropped: NONE };
  const soon = yield* byKnownMember(read.bytes, body);
  if (soon !== undefined) return soon;
  const parsed = yield* parse(read.bytes, body);
  if (isRejection(parsed)) return refused(parsed);
  yield;
  const { faults: ofShape, dropped } = yield* body.check(parsed.value);
  const faults = merge(parsed.faults, ofShape);
  if (faults.length === 0) body.repeated?.keep(read.bytes, parsed.value);
  // The first work of the handler is a piece of its own.
  yield;
  return { kind: 'body', value: parsed.value, faults, dropped };
}

/**
 * Returns a reply that names the fields of the body itself that were dropped. A sender that limits a release to one class, by a
 * field that this service does not know, would otherwise take the reply as obedience.
 */
export function withIgnored(reply: Reply, dropped: readonly DroppedField[]): Reply {
  const ignored = dropped.flatMap(({ path, name }) => (path.lastIndexOf('/') === 0 ? [shownName(name)] : []));
  return ignored.length === 0 ? reply : { ...reply, data: { ...Object(reply.data), ignored } };
}

/**
 * Returns the body if an earlier one had the same large member, as `parsedBody` would. Undefined for any other body, and for one with a
 * fault: it is read whole, so that its sender gets every fault with its path.
 */
function* byKnownMember(bytes: Buffer, { repeated, check }: MountedBody): Pieces<RequestBody | undefined> {
  const known = repeated?.find(bytes);
  if (repeated === undefined || known === undefined) return undefined;
  const parsed = yield* parseBody(known.marked);
  if (isRejection(parsed) || parsed.faults.length > 0 || !repeated.isMarked(parsed.value)) return undefined;
  const { value } = parsed;
  // One item stands for all, which were valid. The check is of shape, so it depends on nothing else in the body.
  value[repeated.name] = known.value.slice(0, 1);
  const { faults, dropped } = yield* check(value);
  if (faults.length > 0) return undefined;
  value[repeated.name] = known.value;
  return { kind: 'body', value, faults, dropped };
}

function* parse(bytes: Buffer, { isForm, anyMarks }: MountedBody): ReturnType<typeof parseBody> {
  if (isForm) return parseForm(bytes, anyMarks);
  return bytes.length === 0 ? { value: {}, faults: [] } : yield* parseBody(bytes, anyMarks);
}

/** Returns both lists, faults of values first. Drops a fault of shape at the same path, which would only repeat one of them. */
function merge(ofValues: FaultDetail[], ofShape: FaultDetail[]): FaultDetail[] {
  if (ofValues.length === 0) return ofShape;
  const reported = new Set(ofValues.map((fault) => fault.path));
  return [...ofValues, ...ofShape.filter((fault) => !reported.has(fault.path))];
}

/**
 * Returns the faults that a refused body has beside those of its shape, so that its sender gets all faults at once. Returns none
 * if the list of faults is full, because a truncated list describes only part of the body.
 */
export function furtherFaults({ route }: MountedRoute, { value, faults }: { value: unknown; faults: FaultDetail[] }) {
  const further = faults.length >= MAX_FAULTS ? undefined : route.body?.moreFaults?.(value, faults);
  if (further === undefined) return [];
  return 'next' in further ? inPieces(further) : further;
}
