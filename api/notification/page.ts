const FIRST_PAGE = 1;
const LIMIT = 20;

/** The page that a query asks for, its bounds already checked by the schema. */
export function pageOf(query: { page?: number; limit?: number }): { page: number; limit: number } {
  return { page: query.page ?? FIRST_PAGE, limit: query.limit ?? LIMIT };
}

/** `data` of a paged list; `total` is that of all pages. */
export function pagedData<Item>(items: Item[], { page, limit }: { page: number; limit: number }, total: number) {
  return { items, page, limit, total, totalPages: Math.ceil(total / limit) };
}
