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
