/**
 * Which state may follow which, as data. A state that lists nothing is final. Every place that changes a state
 * asks the same table, and the documents draw it.
 */
export type Transitions<State extends string> = { readonly [From in State]: readonly State[] };

export function mayFollow<State extends string>(table: Transitions<State>, from: State, to: State): boolean {
  return table[from].includes(to);
}

/** For a change that a rule has already decided: a forbidden one is a bug, so it throws. */
export function assertMayFollow<State extends string>(table: Transitions<State>, from: State, to: State): void {
  if (!mayFollow(table, from, to)) throw new Error(`${from} may not become ${to}`);
}

export function isFinal<State extends string>(table: Transitions<State>, state: State): boolean {
  return table[state].length === 0;
}

/** The states from which `to` can be reached in one step: the filter of the update that makes the change. */
export function statesBefore<State extends string>(table: Transitions<State>, to: State): State[] {
  const before: State[] = [];
  for (const from in table) if (table[from].includes(to)) before.push(from);
  return before;
}
