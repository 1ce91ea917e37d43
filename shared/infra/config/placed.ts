import type { ValueOf } from './plain-values.ts';
import type { Variable } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';
import { VARIABLES, type VariableName } from './variables.ts';

type Rows = typeof VARIABLES;
type PlacedName = {
  [Name in VariableName]: Rows[Name]['into'] extends string ? Name : never;
}[VariableName];
/** Each path with the type of its value. */
type Pair = { [Name in PlacedName]: [path: Rows[Name]['into'] & string, value: ValueOf<Name>] }[PlacedName];

type HeadOf<Path extends string> = Path extends `${infer Head}.${string}` ? Head : Path;
type Under<Some, Head extends string> = Some extends [`${Head}.${infer Rest}`, infer Value] ? [Rest, Value] : never;
type At<Some, Head extends string> = Some extends [Head, infer Value] ? Value : never;
type Tree<Some extends [string, unknown]> = {
  [Head in HeadOf<Some[0]>]: [Under<Some, Head>] extends [never] ? At<Some, Head> : Tree<Under<Some, Head>>;
};

/** The part of a configuration in which each value comes from one variable, at the path of its row. */
export type Placed = Tree<Pair>;

/** Reads every variable whose row names a path. */
export function readPlaced(from: VariableReader): Placed {
  const root: Record<string, unknown> = {};
  for (const name of Object.keys(VARIABLES) as PlacedName[]) {
    const { into }: Variable = VARIABLES[name];
    if (into === null) continue;
    const folders = into.split('.');
    const last = folders.pop() ?? into;
    let place = root;
    for (const folder of folders) {
      place[folder] ??= {};
      place = place[folder] as Record<string, unknown>;
    }
    place[last] = from.value(name);
  }
  return root as Placed;
}
