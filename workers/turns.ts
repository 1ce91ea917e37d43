/** A due command with the organization in whose turn it runs; null: it belongs to none. */
export interface TurnTaker {
  _id: string;
  organizationId: string | null;
}

/** The order in which the due commands of one queue get the slots of this process. */
export interface Turns {
  /** Picks up to `count` of the due commands, given longest due first, and counts them as running until `end`. */
  take<Due extends TurnTaker>(due: readonly Due[], count: number): Due[];
  isRunning(id: string): boolean;
  end(id: string): void;
}

/**
 * Returns turns that go round the organizations. The next slot belongs to the organization that has the fewest runs in this
 * process; of several, to the one whose last turn is longest ago. An organization with a long backlog therefore delays another
 * one by a single run. `most` is the number of slots that one organization may hold; default: all.
 */
export function turnsByOrganization(most = Number.POSITIVE_INFINITY): Turns {
  const running = new Map<string, string | null>();
  /** Number of the last turn, by organization. Contains only organizations that are running or have a due command. */
  const lastTurn = new Map<string | null, number>();
  let turn = 0;

  function runsOf(organizationId: string | null): number {
    return [...running.values()].filter((other) => other === organizationId).length;
  }

  function next<Due extends TurnTaker>(due: readonly Due[]): Due | undefined {
    const rank = ({ organizationId }: Due) => [runsOf(organizationId), lastTurn.get(organizationId) ?? 0] as const;
    // The sort is stable: within one organization, the command that has been due longest stays first.
    const open = due.filter(({ organizationId }) => runsOf(organizationId) < most);
    const [first] = open.map((command) => ({ command, rank: rank(command) })).sort((a, b) => compare(a.rank, b.rank));
    return first?.command;
  }

  function forgetOthers(due: readonly TurnTaker[]): void {
    const present = new Set([...due.map(({ organizationId }) => organizationId), ...running.values()]);
    for (const organizationId of lastTurn.keys()) if (!present.has(organizationId)) lastTurn.delete(organizationId);
  }

  return {
    take(due, count) {
      forgetOthers(due);
      const taken: (typeof due)[number][] = [];
      while (taken.length < count) {
        const command = next(due.filter(({ _id }) => !running.has(_id)));
        if (command === undefined) break;
        turn += 1;
        running.set(command._id, command.organizationId);
        lastTurn.set(command.organizationId, turn);
        taken.push(command);
      }
      return taken;
    },
    isRunning: (id) => running.has(id),
    end: (id) => void running.delete(id),
  };
}

function compare(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] - b[0] || a[1] - b[1];
}
