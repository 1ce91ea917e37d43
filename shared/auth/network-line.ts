/** Limits of the work that waits in a line. */
export interface LineLimits {
  /** Pieces in all. */
  total: number;
  /** Pieces of one address. */
  ofAddress: number;
  /** Pieces of one account, from all addresses. */
  ofAccount: number;
}

/** A piece of work that waits. */
export interface Waiting {
  /** Networks of its caller, the widest first and the address last. */
  networks: readonly string[];
  /** The account that the work is for; null: none that is limited. */
  account: string | null;
}

/**
 * Work that waits, in a tree of networks. At every level the networks take turns, so that many
 * addresses of one network are one.
 */
export interface NetworkLine<Piece extends Waiting> {
  size(): number;
  /** Returns true if a newcomer could wait now. */
  hasRoom(newcomer: Waiting): boolean;
  /**
   * Lets a piece wait. Returns the piece that it displaces; the piece itself if it has no room;
   * null if it displaces none.
   */
  push(piece: Piece): Piece | null;
  /** Removes the piece whose turn it is. */
  shift(): Piece | undefined;
}

interface Branch<Piece> {
  size: number;
  /** Networks inside this one in which pieces wait, the next turn first. */
  parts: Map<string, Branch<Piece>>;
  /** Pieces of this very address, oldest first. */
  own: Piece[];
}

/**
 * Returns an empty line. Where it is full, a newcomer displaces the newest piece of the fullest
 * branch: of the fullest network, in it of the fullest part, down to an address. The newcomer
 * counts as waiting already, and loses a tie. A network thus displaces others only until it has as
 * much as they have, and no two of them displace each other for ever.
 */
export function networkLine<Piece extends Waiting>({ total, ofAddress, ofAccount }: LineLimits): NetworkLine<Piece> {
  const root = branch<Piece>();
  const ofAccounts = new Map<string, number>();

  /**
   * Returns the networks of the address whose newest piece a newcomer displaces, or null if the
   * newcomer has no room.
   */
  function displacedBy(newcomer: Waiting): string[] | null {
    return fullest(root, newcomer.networks);
  }

  function hasRoom(newcomer: Waiting): boolean {
    const { networks, account } = newcomer;
    const ofOwn = account === null ? 0 : (ofAccounts.get(account) ?? 0);
    if (ofOwn >= ofAccount || waitingIn(root, networks) >= ofAddress) return false;
    return root.size < total || displacedBy(newcomer) !== null;
  }

  function count({ account }: Waiting, change: 1 | -1): void {
    if (account === null) return;
    const pieces = (ofAccounts.get(account) ?? 0) + change;
    if (pieces > 0) ofAccounts.set(account, pieces);
    else ofAccounts.delete(account);
  }

  return {
    size: () => root.size,
    hasRoom,
    push(piece) {
      if (!hasRoom(piece)) return piece;
      const full = root.size < total ? null : displacedBy(piece);
      const displaced = full === null ? undefined : popNewest(root, full);
      if (displaced !== undefined) count(displaced, -1);
      add(root, piece.networks, piece);
      count(piece, 1);
      return displaced ?? null;
    },
    shift() {
      const next = root.size === 0 ? undefined : shiftNext(root);
      if (next !== undefined) count(next, -1);
      return next;
    },
  };
}

function branch<Piece>(): Branch<Piece> {
  return { size: 0, parts: new Map(), own: [] };
}

/** Returns the number of pieces of an address. */
function waitingIn<Piece>(from: Branch<Piece>, networks: readonly string[]): number {
  const address = networks.reduce<Branch<Piece> | undefined>((inside, name) => inside?.parts.get(name), from);
  return address?.own.length ?? 0;
}

function add<Piece>(to: Branch<Piece>, [name, ...deeper]: readonly string[], piece: Piece): void {
  to.size += 1;
  if (name === undefined) return void to.own.push(piece);
  const part = to.parts.get(name) ?? branch<Piece>();
  to.parts.set(name, part);
  add(part, deeper, piece);
}

/** Removes the next piece of a branch that has one. A part that was served moves to the end. */
function shiftNext<Piece>(from: Branch<Piece>): Piece | undefined {
  from.size -= 1;
  const [first] = from.parts;
  if (first === undefined) return from.own.shift();
  const [name, part] = first;
  const piece = shiftNext(part);
  from.parts.delete(name);
  if (part.size > 0) from.parts.set(name, part);
  return piece;
}

/** Removes the newest piece of an address. */
function popNewest<Piece>(from: Branch<Piece>, [name, ...deeper]: readonly string[]): Piece | undefined {
  from.size -= 1;
  if (name === undefined) return from.own.pop();
  const part = from.parts.get(name);
  if (part === undefined) return undefined;
  const piece = popNewest(part, deeper);
  if (part.size === 0) from.parts.delete(name);
  return piece;
}

/**
 * Returns the names of the networks from a branch down to its fullest address, or null if the
 * newcomer is the newest there. `newcomer`: the networks of the newcomer inside this branch; null
 * if it is outside. Of equally full parts the one is taken whose turn is farthest.
 */
function fullest<Piece>(from: Branch<Piece>, newcomer: readonly string[] | null): string[] | null {
  if (from.parts.size === 0) return newcomer === null ? [] : null;
  const own = newcomer?.[0];
  let name = own;
  let most = own === undefined ? 0 : (from.parts.get(own)?.size ?? 0) + 1;
  for (const [other, { size }] of from.parts) {
    if (other === own || size < most || (size === most && name === own)) continue;
    name = other;
    most = size;
  }
  const part = name === undefined ? undefined : from.parts.get(name);
  if (name === undefined || part === undefined) return null;
  const deeper = fullest(part, name === own && newcomer !== null ? newcomer.slice(1) : null);
  return deeper === null ? null : [name, ...deeper];
}
