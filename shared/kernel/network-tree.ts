/** Places from the outside in: the networks of a caller, the widest first, and perhaps the caller itself. */
export type Path = readonly string[];

/**
 * Items in a tree of networks. The items of one path are in the order in which they came. Paths that begin equally have equally many
 * places.
 */
export interface NetworkTree<Item> {
  size(): number;
  /** Returns the number of items of this very path. */
  sizeOf(path: Path): number;
  add(path: Path, item: Item): void;
  /** Removes an item that was added with this path. Returns false if it is gone already. */
  remove(path: Path, item: Item): boolean;
  /** Removes the item whose turn it is: at every level the branches take turns, so that many addresses of one network are one. */
  shift(): Item | undefined;
  /**
   * Returns the items of which one makes room for a newcomer, oldest first, or null if the newcomer has no room. They are those of the
   * fullest branch, in it of the fullest part, down to the end of a path. `ofEquals`: the turn of the branch that is taken of equally full
   * ones; without turns, the first or the last that came.
   *
   * The newcomer counts as an item already, and loses a tie. A network thus displaces others only until it has as much as they have, and no
   * two of them displace each other for ever.
   */
  fullest(newcomer: Path, ofEquals: Turn): readonly Item[] | null;
}

type Turn = 'nearest' | 'farthest';

interface Branch<Item> {
  size: number;
  /** Branches inside this one that have items, the next turn first. */
  parts: Map<string, Branch<Item>>;
  /** Items whose path ends here, oldest first. */
  own: Item[];
}

/** Returns an empty tree. */
export function networkTree<Item>(): NetworkTree<Item> {
  const root = newBranch<Item>();
  return {
    size: () => root.size,
    sizeOf: (path) =>
      path.reduce<Branch<Item> | undefined>((from, name) => from?.parts.get(name), root)?.own.length ?? 0,
    add: (path, item) => add(root, path, item),
    remove: (path, item) => remove(root, path, item),
    shift: () => (root.size === 0 ? undefined : shift(root)),
    fullest: (newcomer, ofEquals) => fullest(root, newcomer, ofEquals),
  };
}

function newBranch<Item>(): Branch<Item> {
  return { size: 0, parts: new Map(), own: [] };
}

function add<Item>(to: Branch<Item>, [name, ...deeper]: Path, item: Item): void {
  to.size += 1;
  if (name === undefined) return void to.own.push(item);
  const part = to.parts.get(name) ?? newBranch<Item>();
  to.parts.set(name, part);
  add(part, deeper, item);
}

function remove<Item>(from: Branch<Item>, [name, ...deeper]: Path, item: Item): boolean {
  if (name === undefined) {
    const at = from.own.indexOf(item);
    if (at === -1) return false;
    from.own.splice(at, 1);
  } else {
    const part = from.parts.get(name);
    if (part === undefined || !remove(part, deeper, item)) return false;
    if (part.size === 0) from.parts.delete(name);
  }
  from.size -= 1;
  return true;
}

/** Removes the next item of a branch that has one. A part that was served moves to the end. */
function shift<Item>(from: Branch<Item>): Item | undefined {
  from.size -= 1;
  const [first] = from.parts;
  if (first === undefined) return from.own.shift();
  const [name, part] = first;
  const item = shift(part);
  from.parts.delete(name);
  if (part.size > 0) from.parts.set(name, part);
  return item;
}

/** `newcomer`: the path of the newcomer inside this branch; null if it is outside. */
function fullest<Item>(from: Branch<Item>, newcomer: Path | null, ofEquals: Turn): readonly Item[] | null {
  if (from.parts.size === 0) return newcomer === null ? from.own : null;
  const own = newcomer?.[0];
  let name = own;
  let most = own === undefined ? 0 : (from.parts.get(own)?.size ?? 0) + 1;
  for (const [other, { size }] of from.parts) {
    if (other === own || size < most || (size === most && (name === own || ofEquals === 'nearest'))) continue;
    name = other;
    most = size;
  }
  const part = name === undefined ? undefined : from.parts.get(name);
  if (part === undefined) return null;
  return fullest(part, name === own && newcomer !== null ? newcomer.slice(1) : null, ofEquals);
}
