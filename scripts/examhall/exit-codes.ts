/** How the operator's command ends. Scripts and monitors branch on these numbers, so their meaning never changes. */
export const EXIT = {
  /** Done; for a check, all is well. */
  done: 0,
  /** Nothing was done, something failed, or a check found a fault. */
  failed: 1,
  /** The arguments are invalid; nothing was changed. */
  usage: 2,
  /** The configuration is invalid; nothing was changed. */
  configuration: 78,
} as const;

/** Ends a command with an exit code. The message is printed as an error. */
export class Refused extends Error {
  readonly code: number = EXIT.failed;
}

/** Refuses the arguments of a command, before anything is changed. */
export class WrongUsage extends Refused {
  override readonly code = EXIT.usage;
}
