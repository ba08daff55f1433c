/** The pages: at the left, or as a bar on narrow screens. */
import { Link, useLocation } from "@tanstack/react-router";
import { PanelLeftClose, PanelLeftOpen, Search } from "lucide-react";
import { type ReactElement, useEffect, useRef } from "react";

import { usePerson } from "../../api/session.js";
import { IconButton, Tooltip } from "../../ui/controls/controls.js";
import { Mark } from "../mark.js";
import { navigationGroups, type PageEntry, pages } from "../pages.js";
import { changeSettings, useSettings } from "../settings.js";
import css from "./shell.module.css";

export function Navigation({ onSearch }: { readonly onSearch: () => void }): ReactElement {
  const narrow = useSettings().navigation === "narrow";
  const { isAdmin } = usePerson();
  const shown = pages.filter(
    ({ navigation, adminOnly }) =>
      navigation !== undefined && navigation.within !== true && (isAdmin || adminOnly !== true),
  );
  const links = useRef<HTMLDivElement | null>(null);
  const { pathname } = useLocation();
  // As a bar it is longer than narrow screens are wide. After `scrollIntoView`, Tab would go on from the link, past the
  // way to the page.
  useEffect(() => {
    const bar = links.current?.getBoundingClientRect();
    const link = links.current?.querySelector('[aria-current="page"]')?.getBoundingClientRect();
    if (bar !== undefined && link !== undefined) {
      const down = Math.max(0, link.bottom - bar.bottom) + Math.min(0, link.top - bar.top);
      links.current?.scrollBy(link.left + link.width / 2 - bar.left - bar.width / 2, down);
    }
  }, [pathname]);
  return (
    <nav className={css.navigation} aria-label="Pages">
      <Link to="/" className={css.home} aria-label="Telemetry, first page">
        <Mark size={22} />
        <span className={css.words}>Telemetry</span>
      </Link>
      <div className={css.links} ref={links}>
        {navigationGroups.map((group) => {
          const entries = shown.filter((page) => page.navigation?.group === group);
          return entries.length === 0 ? null : (
            <div key={group} className={css.group}>
              {group === "" ? null : <p className={css.groupTitle}>{group}</p>}
              <ul>
                {entries.map((page) => (
                  <li key={page.path}>
                    <PageLink page={page} narrow={narrow} />
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </div>
      <div className={css.foot}>
        <IconButton label="Search (Ctrl K)" onClick={onSearch}>
          <Search />
        </IconButton>
        <IconButton
          className={css.collapse}
          label={narrow ? "Widen the navigation" : "Narrow the navigation"}
          onClick={() => changeSettings({ navigation: narrow ? "wide" : "narrow" })}
        >
          {narrow ? <PanelLeftOpen /> : <PanelLeftClose />}
        </IconButton>
      </div>
    </nav>
  );
}

function PageLink({ page, narrow }: { readonly page: PageEntry; readonly narrow: boolean }): ReactElement {
  const Icon = page.navigation?.icon;
  const link = (
    <Link
      to={page.path}
      className={css.link}
      activeOptions={{ exact: page.path === "/", includeSearch: false }}
      aria-label={page.title}
    >
      {Icon === undefined ? null : <Icon aria-hidden />}
      <span className={css.words}>{page.title}</span>
    </Link>
  );
  return narrow ? (
    <Tooltip text={page.title} side="right">
      {link}
    </Tooltip>
  ) : (
    link
  );
}
