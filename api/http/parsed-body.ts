import { MAX_FAULTS } from '#infra/schema/validator.ts';
import { type FaultDetail, isRejection } from '#shared/kernel/errors.ts';
import type { BodyRead } from './body.ts';
import { parseBody } from './json.ts';
import { parseForm } from './media-type.ts';
import { refused } from './reply.ts';
import type { MountedBody, MountedRoute } from './route-table.ts';

/** Result for a route without a body. */
export const UNREAD = { kind: 'unread' } as const;

/** A parsed body: its value, and the faults of that value. */
interface RequestBody {
  kind: 'body';
  value: unknown;
  faults: FaultDetail[];
}

/**
 * Returns the faults that a refused body has beside those of its shape, so that its sender gets all faults at once. Returns none
 * if the list of faults is full, because a truncated list describes only part of the body.
 */
export function furtherFaults({ route }: MountedRoute, { value, faults }: { value: unknown; faults: FaultDetail[] }) {
  const further = faults.length >= MAX_FAULTS ? undefined : route.body?.moreFaults?.(value, faults);
  return further ?? [];
}

/** Checks JSON and shape of a body that was read. */
export function parsedBody(
  read: BodyRead | typeof UNREAD,
  { body }: MountedRoute,
): RequestBody | Exclude<BodyRead, { kind: 'read' }> {
  if (read.kind === 'refused' || read.kind === 'gone') return read;
  if (read.kind === 'unread' || body === undefined) return { kind: 'body', value: undefined, faults: [] };
  const parsed = parse(read.bytes, body);
  if (isRejection(parsed)) return refused(parsed);
  return { kind: 'body', value: parsed.value, faults: merge(parsed.faults, body.validate(parsed.value)) };
}

function parse(bytes: Buffer, { isForm, anyMarks }: MountedBody): ReturnType<typeof parseBody> {
  if (isForm) return parseForm(bytes, anyMarks);
  return bytes.length === 0 ? { value: {}, faults: [] } : parseBody(bytes, anyMarks);
}

/** Returns both lists, faults of values first. Drops a fault of shape at the same path, which would only repeat one of them. */
function merge(ofValues: FaultDetail[], ofShape: FaultDetail[]): FaultDetail[] {
  if (ofValues.length === 0) return ofShape;
  const reported = new Set(ofValues.map((fault) => fault.path));
  return [...ofValues, ...ofShape.filter((fault) => !reported.has(fault.path))];
}
