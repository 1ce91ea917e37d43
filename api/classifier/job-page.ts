const LIMIT = 20;

/** The page that a query asks for, its bounds already checked by the schema. */
export function pageOf(query: { limit?: number; offset?: number }): { limit: number; offset: number } {
  return { limit: query.limit ?? LIMIT, offset: query.offset ?? 0 };
}
