import type { CsvCell } from './csv.ts';

/**
 * Most columns of members, so that a line fits into memory. A description of 16 KiB has fewer members, and those of one sender have the same
 * names. If there are more names, the others share one column.
 */
const MAX_COLUMNS = 3_000;

/** The columns of the students' descriptions, `studentInfo.{name}` for each member that a cell can show. */
export class InfoColumns {
  readonly #names = new Set<string>();
  #hasRest = false;

  /** Adds the names of one student's description. */
  add(studentInfo: string | null): void {
    for (const [name] of scalarsOf(studentInfo)) {
      if (this.#names.has(name)) continue;
      if (this.#names.size < MAX_COLUMNS) this.#names.add(name);
      else this.#hasRest = true;
    }
  }

  layout(): InfoLayout {
    return { names: new Set([...this.#names].sort()), hasRest: this.#hasRest };
  }
}

export interface InfoLayout {
  readonly names: ReadonlySet<string>;
  /** A last column has the members that have none of their own, as JSON. */
  readonly hasRest: boolean;
}

export function infoHeader({ names, hasRest }: InfoLayout): string[] {
  return [...[...names].map((name) => `studentInfo.${name}`), ...(hasRest ? ['studentInfo'] : [])];
}

/** Returns the cells of one student, in the order of the header. */
export function infoCells(studentInfo: string | null, { names, hasRest }: InfoLayout): CsvCell[] {
  const members = new Map(scalarsOf(studentInfo));
  const cells = [...names].map((name) => members.get(name) ?? null);
  if (!hasRest) return cells;
  const rest = [...members].filter(([name]) => !names.has(name));
  return [...cells, rest.length === 0 ? null : JSON.stringify(Object.fromEntries(rest))];
}

/** Returns the members of a description that a cell can show. null is an empty cell. */
function scalarsOf(studentInfo: string | null): [string, CsvCell][] {
  const members: Record<string, unknown> = studentInfo === null ? {} : JSON.parse(studentInfo);
  return Object.entries(members).flatMap(([name, value]): [string, CsvCell][] => {
    const isScalar = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
    return isScalar || value === null ? [[name, value]] : [];
  });
}
