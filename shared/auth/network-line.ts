import { networkTree } from '#shared/kernel/network-tree.ts';

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

/**
 * Returns an empty line. Where it is full, a newcomer displaces the newest piece of the fullest
 * address of the fullest network, as `NetworkTree` finds it.
 */
export function networkLine<Piece extends Waiting>({ total, ofAddress, ofAccount }: LineLimits): NetworkLine<Piece> {
  const tree = networkTree<Piece>();
  const ofAccounts = new Map<string, number>();

  function hasRoom({ networks, account }: Waiting): boolean {
    const ofOwn = account === null ? 0 : (ofAccounts.get(account) ?? 0);
    if (ofOwn >= ofAccount || tree.sizeOf(networks) >= ofAddress) return false;
    return tree.size() < total || tree.fullest(networks, 'farthest') !== null;
  }

  function count({ account }: Waiting, change: 1 | -1): void {
    if (account === null) return;
    const pieces = (ofAccounts.get(account) ?? 0) + change;
    if (pieces > 0) ofAccounts.set(account, pieces);
    else ofAccounts.delete(account);
  }

  return {
    size: tree.size,
    hasRoom,
    push(piece) {
      if (!hasRoom(piece)) return piece;
      const displaced = tree.size() < total ? undefined : tree.fullest(piece.networks, 'farthest')?.at(-1);
      if (displaced !== undefined) {
        tree.remove(displaced.networks, displaced);
        count(displaced, -1);
      }
      tree.add(piece.networks, piece);
      count(piece, 1);
      return displaced ?? null;
    },
    shift() {
      const next = tree.shift();
      if (next !== undefined) count(next, -1);
      return next;
    },
  };
}
