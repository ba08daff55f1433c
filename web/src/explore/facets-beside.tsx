/** Facets at the side of what they narrow. Where there is no room, a button puts them in its place. */
import { SlidersHorizontal } from "lucide-react";
import { type ReactElement, type ReactNode, useState } from "react";

import { Button, classes } from "../ui/controls/controls.js";
import { Facets, type FacetsProps } from "./facets.js";
import css from "./facets.module.css";
import { type ListChange, useNames } from "./use-filters.js";
import { useNarrow } from "../app/use-narrow.js";

interface FacetsState {
  readonly keys: readonly string[];
  readonly changeKeys: (change: ListChange<string>) => void;
  readonly narrow: boolean;
  /** Where there is no room. */
  readonly open: boolean;
  readonly setOpen: (open: boolean) => void;
}

/** @param defaults keys while the address has none */
export function useFacets(defaults: readonly string[]): FacetsState {
  const [keys, changeKeys] = useNames("facet", defaults);
  const [open, setOpen] = useState(false);
  return { keys, changeKeys, narrow: useNarrow(), open, setOpen };
}

export function FacetsButton({ state }: { readonly state: FacetsState }): ReactElement | null {
  const { narrow, open, setOpen } = state;
  return narrow ? (
    <Button aria-pressed={open} onClick={() => setOpen(!open)}>
      <SlidersHorizontal /> Facets
    </Button>
  ) : null;
}

export function FacetsBeside({
  state,
  children,
  ...facets
}: Omit<FacetsProps, "keys" | "onKeys"> & {
  readonly state: FacetsState;
  readonly children: ReactNode;
}): ReactElement {
  const { keys, changeKeys, narrow, open } = state;
  return (
    <div className={classes(css.beside, open && css.open)}>
      {!narrow || open ? (
        <div className={css.side}>
          <Facets {...facets} keys={keys} onKeys={changeKeys} />
        </div>
      ) : null}
      {children}
    </div>
  );
}
