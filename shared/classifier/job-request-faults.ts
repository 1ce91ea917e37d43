import type { FaultDetail } from '../kernel/errors.ts';

/** What the schema cannot say: each question and each field stands once. Takes a body of any shape. */
export function jobRequestFaults(body: unknown): FaultDetail[] {
  return [...repeats(body, 'questionIds'), ...repeats(body, 'fields')];
}

function repeats(body: unknown, name: string): FaultDetail[] {
  const list: unknown = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
  if (!Array.isArray(list)) return [];
  const seen = new Set<unknown>();
  const faults: FaultDetail[] = [];
  list.forEach((value, at) => {
    if (seen.has(value)) faults.push({ path: `/${name}/${at}`, message: 'is there already' });
    seen.add(value);
  });
  return faults;
}
