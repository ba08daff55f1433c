/** A link that looks like a button: it goes to a page. */
import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";

import type { Search } from "../../app/search.js";
import controls from "./controls.module.css";
import { classes } from "./controls.js";

export function LinkButton({
  to,
  search = {},
  look = "plain",
  className,
  children,
  ...rest
}: {
  readonly to: string;
  /** Time range, audience and data source go along by themselves. */
  readonly search?: Search;
  readonly look?: "plain" | "primary" | "quiet";
  readonly className?: string | undefined;
  readonly title?: string;
  readonly "aria-label"?: string;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <Link
      to={to}
      search={search}
      className={classes(controls.button, look !== "plain" && controls[look], className)}
      {...rest}
    >
      {children}
    </Link>
  );
}
