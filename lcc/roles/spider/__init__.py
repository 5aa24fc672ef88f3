"""The spider: follows links, and tells them (:mod:`lcc.roles.spider.engine`)."""
